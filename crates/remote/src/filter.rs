//! The filter of the offered workflows.

use crate::config::SettingError;
use crate::names::slug;

/// Maximum number of patterns of one service.
pub(crate) const MAX_PATTERNS: usize = 100;
/// Maximum length of a pattern, in characters.
pub(crate) const MAX_PATTERN_CHARS: usize = 200;

/// Globs of names: `*` matches any text, `?` any character, and a leading `!` excludes. A glob matches a whole name,
/// regardless of case: the title of a workflow, or the part of its tool's name that comes from the title.
///
/// Exclusions take precedence in any order. Without an including pattern, the filter offers everything else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    included: Vec<Vec<char>>,
    excluded: Vec<Vec<char>>,
}

/// Returns the patterns if they are valid.
pub(crate) fn check_patterns(patterns: Vec<String>) -> Result<Vec<String>, SettingError> {
    if patterns.len() > MAX_PATTERNS {
        return Err(SettingError::TooManyPatterns { count: patterns.len() });
    }
    for pattern in &patterns {
        let glob = pattern.strip_prefix('!').unwrap_or(pattern);
        if glob.trim().is_empty() || glob.chars().count() > MAX_PATTERN_CHARS {
            return Err(SettingError::PatternLength { beginning: pattern.chars().take(20).collect() });
        }
    }
    Ok(patterns)
}

impl Filter {
    /// Creates a filter from the patterns of a configuration.
    #[must_use]
    pub fn new(patterns: &[String]) -> Self {
        let mut filter = Self::default();
        for pattern in patterns {
            match pattern.strip_prefix('!') {
                Some(pattern) => filter.excluded.push(fold_case(pattern)),
                None => filter.included.push(fold_case(pattern)),
            }
        }
        filter
    }

    /// Returns whether the filter offers a workflow with this title.
    #[must_use]
    pub fn admits(&self, title: &str) -> bool {
        let (slug, title) = (fold_case(&slug(title)), fold_case(title));
        let matches_any = |patterns: &[Vec<char>]| {
            patterns.iter().any(|pattern| matches(pattern, &title) || (!slug.is_empty() && matches(pattern, &slug)))
        };
        (self.included.is_empty() || matches_any(&self.included)) && !matches_any(&self.excluded)
    }
}

fn fold_case(text: &str) -> Vec<char> {
    text.trim().chars().flat_map(char::to_lowercase).collect()
}

/// Matches a glob in at most `pattern * text` steps. Only the last `*` is retried, because a longer match of an earlier
/// one would only leave less text for the last.
fn matches(pattern: &[char], text: &[char]) -> bool {
    let (mut index, mut position) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while position < text.len() {
        match pattern.get(index) {
            Some('*') => {
                star = Some((index, position));
                index += 1;
            }
            Some(character) if *character == '?' || *character == text[position] => {
                index += 1;
                position += 1;
            }
            _ => {
                let Some((star_index, star_end)) = star else { return false };
                star = Some((star_index, star_end + 1));
                index = star_index + 1;
                position = star_end + 1;
            }
        }
    }
    pattern[index..].iter().all(|character| *character == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_titles_and_tool_names() {
        let cases: &[(&[&str], &str, bool)] = &[
            (&[], "Anything", true),
            (&["deploy"], "Deploy", true),
            (&["deploy"], "Deploy now", false),
            (&["deploy*"], "Deploy now", true),
            (&["*now"], "Deploy now", true),
            (&["deploy_now"], "Deploy now!", true),
            (&["Deploy now!"], "Deploy now!", true),
            (&["d?ploy"], "DEPLOY", true),
            (&["d?ploy"], "dploy", false),
            (&["*"], "日本", true),
            (&["日*"], "日本", true),
            (&["GRÖSSE*"], "größe", false),
            (&["GRÖ*"], "größe", true),
            (&["!internal*"], "Internal thing", false),
            (&["!internal*"], "Deploy", true),
            (&["!internal*", "*"], "Internal thing", false),
            (&["*", "!internal*"], "Internal thing", false),
            (&["deploy*", "!*prod*"], "Deploy to prod", false),
            (&["deploy*", "!*prod*"], "Deploy to stage", true),
            (&["deploy*", "!*prod*"], "Build", false),
            (&["a*b*c"], "a-b-b-c", true),
            (&["a*b*c"], "a-b-b-d", false),
            (&["**"], "x", true),
        ];
        for (patterns, title, is_admitted) in cases {
            let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
            assert_eq!(Filter::new(&patterns).admits(title), *is_admitted, "{patterns:?} and {title:?}");
        }
    }

    #[test]
    fn many_wildcards_match_quickly() {
        let filter = Filter::new(&["*a".repeat(90) + "b"]);
        assert!(!filter.admits(&"a".repeat(200)));
    }
}
