//! Effects of statements for databases, by their first words.

use super::Effect;
use super::programs::has_word;

/// Effect of a text for the client of a database.
pub(super) enum SqlEffect {
    Known(Effect),
    /// The client gives this line to a shell.
    Shell(String),
}

/// Words with which a statement only reads, or can be undone.
const READING: &str = "select show describe desc explain use set begin start commit end rollback savepoint release pragma values with table help \
    analyze fetch declare close listen notify check";
const ADDING: &str = "create insert comment grant copy attach detach lock unlock prepare execute";

/// Words that take something away, wherever they stand in a statement: also in one that only explains another one.
const TAKING: &str = "drop truncate delete update alter revoke vacuum reindex merge kill shutdown purge flush reset";

/// Commands of clients that change nothing.
const OF_CLIENTS: &str = ".tables .schema .quit .exit .headers .header .mode .databases .help .show .indexes .timer .width .nullvalue .dump .stats \
    .fullschema .echo .print .separator .changes .open \\d \\dt \\di \\dv \\df \\dn \\du \\l \\q \\x \\c \\conninfo \\timing \\pset \\a \\t \\? \\h \\encoding \\d+ \\dt+ \\l+ \\s \\u quit exit help status \\g";

/// Judges a text for the client of a database.
pub(super) fn effect(text: &str) -> SqlEffect {
    let text = text.trim();
    let first = text.split_whitespace().next().unwrap_or_default().trim_end_matches(';');
    for prefix in [".shell ", ".system ", "\\! ", "system "] {
        if let Some(line) = text.strip_prefix(prefix) {
            return SqlEffect::Shell(line.to_owned());
        }
    }
    if first.starts_with(['.', '\\']) || has_word("quit exit help status", first) {
        // A pipe or a file may follow.
        let is_known = has_word(OF_CLIENTS, first) && !text.contains('|');
        return SqlEffect::Known(if is_known { Effect::Reversible } else { Effect::Unknown });
    }
    let effect = plain(text).split(';').map(statement).max().unwrap_or(Effect::Reversible);
    SqlEffect::Known(effect)
}

fn statement(statement: &str) -> Effect {
    let lower = statement.to_lowercase();
    let words: Vec<&str> =
        lower.split(|sign: char| !sign.is_alphanumeric() && sign != '_').filter(|word| !word.is_empty()).collect();
    let Some(first) = words.first() else { return Effect::Reversible };
    let has = |list: &str| words.iter().any(|word| has_word(list, word));
    if has_word(TAKING, first) {
        return Effect::Irreversible;
    }
    // `select … for update`, `on delete cascade` and `on conflict do update` are no statements of their own.
    let is_clause = |at: usize| at > 0 && has_word("for on do before after", words[at - 1]);
    let takes = words
        .iter()
        .enumerate()
        .any(|(at, word)| has_word("drop truncate delete update alter", word) && !is_clause(at));
    match *first {
        "explain" | "with" | "prepare" | "execute" | "do" | "call" | "begin" if takes => Effect::Irreversible,
        "select" if has("outfile dumpfile pg_terminate_backend lo_unlink pg_drop_replication_slot") => Effect::Unknown,
        "select" | "show" | "values" | "table" => Effect::Reversible,
        "create" if has("or") && has("replace") => Effect::Unknown,
        "copy" if has("program") => Effect::Unknown,
        "pragma" | "set" if statement.contains('=') && *first == "pragma" => Effect::Unknown,
        "execute" | "prepare" | "do" | "call" => Effect::Unknown,
        first if has_word(READING, first) || has_word(ADDING, first) => Effect::Reversible,
        _ => Effect::Unknown,
    }
}

/// Returns statements without comments, and without what stands in quotes.
fn plain(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some(sign) = rest.chars().next() {
        let end = match sign {
            '\'' | '"' | '`' => rest[1..].find(sign).map(|end| end + 2),
            '-' if rest.starts_with("--") => rest.find('\n').or(Some(rest.len())),
            // MySQL executes a comment with a version.
            '/' if rest.starts_with("/*") && !rest.starts_with("/*!") => rest.find("*/").map(|end| end + 2),
            _ => {
                plain.push(sign);
                Some(sign.len_utf8())
            }
        };
        if matches!(sign, '\'' | '"' | '`') || rest.starts_with("/*") {
            plain.push(' ');
        }
        rest = &rest[end.unwrap_or(rest.len())..];
    }
    plain
}

/// Returns whether a text has statements for a database that take something away: as an answer to any program.
pub(super) fn takes_away(text: &str) -> bool {
    plain(text).split(';').any(|one| {
        let lower = one.to_lowercase();
        let words: Vec<&str> = lower.split_whitespace().collect();
        let pairs = [
            "drop table",
            "drop database",
            "drop schema",
            "drop index",
            "drop view",
            "drop user",
            "drop role",
            "truncate table",
            "delete from",
            "alter table",
        ];
        words.windows(2).any(|pair| pairs.contains(&pair.join(" ").as_str())) || words.first() == Some(&"truncate")
    })
}
