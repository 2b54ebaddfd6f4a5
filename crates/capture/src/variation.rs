//! Removal of volatile text. Volatile text differs between runs with the same actions: identifiers, temporary paths,
//! times, speeds.
//!
//! Comparisons of output ignore volatile text. All other numbers are results, and are compared.

/// Placeholder for volatile text.
const PLACEHOLDER: &str = "…";

/// Returns an output without volatile text: identifiers (hashes, UUIDs, process ids, ports, names with random endings),
/// temporary paths, times, durations, sizes with a unit, speeds, and repeated spaces.
#[must_use]
pub fn remove_volatile_text(output: &str) -> String {
    output.trim().lines().map(normalise_line).collect::<Vec<_>>().join("\n")
}

/// Returns a question, or another awaited text, with zeros in place of all numbers.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut result = String::new();
    for character in remove_volatile_text(text).chars() {
        match character {
            digit if digit.is_ascii_digit() && result.ends_with('0') => {}
            digit if digit.is_ascii_digit() => result.push('0'),
            other => result.push(other),
        }
    }
    result
}

fn normalise_line(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let words: Vec<String> = (0..words.len()).map(|index| normalise_word(&words, index)).collect();
    // The padding of counters varies: `( 42 kB)` and `(142 kB)`.
    words.join(" ").replace("( …", "(…").replace("[ …", "[…")
}

/// Returns whether a character next to a word is not part of it.
fn is_delimiter(character: char) -> bool {
    !character.is_alphanumeric() && !"/%#…".contains(character)
}

/// Returns a word of a line without volatile text.
fn normalise_word(words: &[&str], index: usize) -> String {
    let word = words[index];
    let core = word.trim_matches(is_delimiter);
    if core.is_empty() {
        return word.to_owned();
    }
    let begin = word.find(core).unwrap_or(0);
    let (open, close) = (&word[..begin], &word[begin + core.len()..]);
    let before = index.checked_sub(1).and_then(|previous| words.get(previous)).copied().unwrap_or_default();
    let after = words.get(index + 1).copied().unwrap_or_default().trim_matches(is_delimiter);
    let is_volatile = is_temporary(core)
        || is_time(core)
        || is_part_of_date(words, index, core)
        || is_percentage_of_counter(core, open, close, before)
        || is_hash_of_commit(core, close, before)
        || is_labelled(core, before)
        || is_job(words, index)
        || is_uuid(core)
        // A larger number may have another unit.
        || (is_unit(core) && is_number(labelled_value(before.trim_matches(is_delimiter))));
    if is_volatile {
        return format!("{open}{PLACEHOLDER}{close}");
    }
    let value = labelled_value(core);
    let label = core[..core.len() - value.len()].trim_end_matches(['=', ':']);
    if is_quantity(value) || (is_number(value) && (is_unit(after) || is_age(after, words.get(index + 2).copied()))) {
        return format!("{open}{}{PLACEHOLDER}{close}", &core[..core.len() - value.len()]);
    }
    if let Some(path) = text_after_port(label, value) {
        return format!("{open}{label}:{PLACEHOLDER}{}{close}", without_identifiers(path));
    }
    format!("{open}{}{close}", without_identifiers(core))
}

/// Returns the value after the name in a word such as `time=0.045`.
fn labelled_value(word: &str) -> &str {
    word.rsplit(['=', ':']).next().unwrap_or(word)
}

/// Returns a word with a placeholder for each identifier: hashes, addresses in memory, random endings of names,
/// timestamps in seconds, and long numbers of names such as `job-48213`.
fn without_identifiers(word: &str) -> String {
    let mut result = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(character) = rest.chars().next() {
        let length = rest.find(|character: char| !character.is_alphanumeric()).unwrap_or(rest.len());
        if length == 0 {
            result.push(character);
            rest = &rest[character.len_utf8()..];
            continue;
        }
        let (part, after) = rest.split_at(length);
        let is_numbered = part.len() >= 4
            && is_digits(part)
            && result
                .strip_suffix(['-', '_', '#'])
                .is_some_and(|name| result.ends_with('#') || name.ends_with(|last: char| last.is_ascii_alphabetic()));
        // The process id in a line of a log: `sshd[1234]:`.
        let is_process = result.strip_suffix('[').is_some_and(|name| name.ends_with(char::is_alphanumeric))
            && (after.is_empty() || after.starts_with("]:"))
            && is_digits(part);
        let is_random_suffix = result.ends_with('_') && part.len() >= 10 && is_mixed(part);
        let is_identifier =
            is_hash(part) || is_random(part) || is_timestamp(part) || is_numbered || is_process || is_random_suffix;
        result.push_str(if is_identifier { PLACEHOLDER } else { part });
        rest = after;
    }
    result
}

fn is_number(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_digit())
        && word.chars().all(|character| character.is_ascii_digit() || character == '.' || character == ',')
}

fn is_digits(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether a part is a hash or an address. A number alone is not a hash.
fn is_hash(part: &str) -> bool {
    let digits = part.bytes().filter(u8::is_ascii_digit).count();
    let is_address =
        part.strip_prefix("0x").is_some_and(|hex| hex.len() >= 6 && hex.chars().all(|c| c.is_ascii_hexdigit()));
    let is_hex = part.len() >= 7 && part.chars().all(|character| character.is_ascii_hexdigit());
    is_address || (is_hex && digits > 0 && digits < part.len())
}

fn is_mixed(part: &str) -> bool {
    part.is_ascii() && part.contains(|character: char| character.is_ascii_digit()) && !is_digits(part)
}

/// Returns whether letters and digits alternate, as in identifiers and the endings of temporary names.
fn is_random(part: &str) -> bool {
    let characters: Vec<char> = part.chars().collect();
    let changes = characters.windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count();
    characters.len() >= 8 && characters.iter().all(char::is_ascii_alphanumeric) && changes >= 3
}

/// Returns whether a part is a timestamp in seconds or milliseconds since 1970, in this century.
fn is_timestamp(part: &str) -> bool {
    is_digits(part) && matches!(part.len(), 10 | 13) && part.starts_with('1')
}

fn is_uuid(core: &str) -> bool {
    let lengths: Vec<usize> = core.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && core.chars().all(|character| character.is_ascii_hexdigit() || character == '-')
}

fn is_temporary(core: &str) -> bool {
    ["/tmp/", "/var/tmp/", "/run/", "/dev/shm/"].iter().any(|begin| core.contains(begin))
}

/// Returns whether a word is a time of day, a date, or both: `12:30:05`, `2026-01-31`, `2026-01-31T12:30:05.5Z`.
fn is_time(core: &str) -> bool {
    let (date, clock) = match core.split_once('T') {
        Some((date, clock)) => (Some(date), Some(clock)),
        None if core.contains(':') => (None, Some(core)),
        None => (Some(core), None),
    };
    date.is_none_or(is_date) && clock.is_none_or(is_clock)
}

fn is_date(text: &str) -> bool {
    ['-', '/', '.'].into_iter().any(|separator| {
        let parts: Vec<&str> = text.split(separator).collect();
        let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        (lengths == [4, 2, 2] || lengths == [2, 2, 4]) && parts.into_iter().all(is_digits)
    })
}

fn is_clock(text: &str) -> bool {
    // A time zone or a part of the day may follow.
    let clock = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let clock = clock.split(['+', '-']).next().unwrap_or_default();
    let parts: Vec<&str> = clock.split(':').collect();
    let is_short =
        |part: &&str| part.split(['.', ',']).next().is_some_and(|integer| is_digits(integer) && integer.len() <= 2);
    let has_two_digits = |part: &&&str| part.split(['.', ',']).next().is_some_and(|integer| integer.len() == 2);
    matches!(parts.len(), 2 | 3)
        && parts.iter().all(is_short)
        && parts.iter().skip(1).filter(has_two_digits).count() == parts.len() - 1
}

/// The names of months and days of the week, as programs write dates in English.
const DATE_NAMES: [&str; 19] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec", "mon", "tue", "wed", "thu",
    "fri", "sat", "sun",
];

/// Returns whether a word is the short name of a month or a day, as `date` and `ls -l` write it.
fn is_date_name(word: &str) -> bool {
    let word = word.trim_matches(is_delimiter);
    word.starts_with(|first: char| first.is_ascii_uppercase())
        && DATE_NAMES.contains(&word.to_ascii_lowercase().as_str())
}

/// Returns whether a word is part of a date: the name of a month or a day next to a number or another name, a day of
/// the month next to the name of a month, or a year in such a line.
fn is_part_of_date(words: &[&str], index: usize, core: &str) -> bool {
    let neighbours =
        || [index.checked_sub(1), Some(index + 1)].into_iter().flatten().filter_map(|neighbour| words.get(neighbour));
    let number = |word: &str| word.trim_matches(is_delimiter).parse::<u32>().ok();
    match number(core).filter(|_| is_digits(core)) {
        Some(day @ 1..=31) => day > 0 && neighbours().any(|word| is_date_name(word)),
        Some(1970..2200) => words.iter().any(|word| is_date_name(word)),
        Some(_) => false,
        None => is_date_name(core) && neighbours().any(|word| is_date_name(word) || number(word).is_some()),
    }
}

/// Units of time, sizes and speeds after a number.
const UNITS: [&str; 49] = [
    "ns",
    "us",
    "µs",
    "μs",
    "ms",
    "s",
    "sec",
    "secs",
    "second",
    "seconds",
    "min",
    "mins",
    "minute",
    "minutes",
    "hour",
    "hours",
    "kB",
    "KB",
    "kb",
    "KiB",
    "MB",
    "MiB",
    "GB",
    "GiB",
    "TB",
    "TiB",
    "B/s",
    "kB/s",
    "KB/s",
    "KiB/s",
    "MB/s",
    "MiB/s",
    "GB/s",
    "GiB/s",
    "bps",
    "kbps",
    "Mbps",
    "Gbps",
    "kbit/s",
    "Mbit/s",
    "Gbit/s",
    "it/s",
    "req/s",
    "ops/s",
    "millis",
    "milliseconds",
    "microseconds",
    "nanoseconds",
    "msec",
];

fn is_unit(word: &str) -> bool {
    UNITS.contains(&word) || word.split_once('/').is_some_and(|(size, second)| second == "s" && UNITS.contains(&size))
}

/// Returns whether the words of an age follow a number: `3 days ago`.
fn is_age(after: &str, next: Option<&str>) -> bool {
    let units = ["day", "days", "week", "weeks", "month", "months", "year", "years"];
    units.contains(&after) && next.is_some_and(|next| next.trim_matches(is_delimiter) == "ago")
}

/// Returns whether a word consists of numbers with units: `1.5s`, `42kB`, `0m0.003s`, `12.3M/s`.
fn is_quantity(word: &str) -> bool {
    let mut rest = word;
    let mut units = Vec::new();
    while !rest.is_empty() {
        let number = rest
            .find(|character: char| !character.is_ascii_digit() && character != '.' && character != ',')
            .unwrap_or(rest.len());
        let (digits, after) = rest.split_at(number);
        let end = after.find(|character: char| character.is_ascii_digit()).unwrap_or(after.len());
        if !is_number(digits) || end == 0 {
            return false;
        }
        units.push(&after[..end]);
        rest = &after[end..];
    }
    match units[..] {
        [] => false,
        [unit] => is_unit(unit) || matches!(unit, "k/s" | "M/s" | "G/s" | "K/s"),
        // Several numbers with units are a duration.
        _ => units.iter().all(|unit| matches!(*unit, "d" | "h" | "m" | "s" | "ms" | "min")),
    }
}

/// Returns whether a word is the percentage of a progress counter: `[ 42%]`. Any other percentage is a result.
fn is_percentage_of_counter(core: &str, open: &str, close: &str, before: &str) -> bool {
    let is_open = open.ends_with('[') || (open.is_empty() && before.ends_with('['));
    is_open && close.starts_with(']') && core.strip_suffix('%').is_some_and(is_number)
}

/// Words before the short hash of a commit in the output of `git`: `now at 1234567`, `[detached HEAD 1234567]`, `could
/// not apply 1234567`.
const COMMIT_LABELS: [&str; 5] = ["commit", "at", "HEAD", "apply", "onto"];

/// Returns whether a word is the short hash of a commit in the output of `git`, even with only digits or only letters.
/// It may follow a branch: `[main 1234567]`.
fn is_hash_of_commit(core: &str, close: &str, before: &str) -> bool {
    let is_hash = (7..=40).contains(&core.len()) && core.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash && (COMMIT_LABELS.contains(&before) || (before.starts_with('[') && close.starts_with(']')))
}

/// Words before a number that is an identifier.
const IDENTIFIER_LABELS: [&str; 6] = ["pid", "ppid", "port", "process", "pids", "uuid"];

fn is_labelled(core: &str, before: &str) -> bool {
    let is_label =
        |word: &str| IDENTIFIER_LABELS.contains(&word.trim_matches(is_delimiter).to_ascii_lowercase().as_str());
    match core.rsplit_once(['=', ':']) {
        Some((label, value)) => is_digits(value) && is_label(label),
        None => is_digits(core) && is_label(before),
    }
}

/// Returns whether a word is the process id of a job that a shell starts: `[1] 12345`.
fn is_job(words: &[&str], index: usize) -> bool {
    let is_number = |word: &&str| word.strip_prefix('[').and_then(|word| word.strip_suffix(']')).is_some_and(is_digits);
    index == 1 && words.len() == 2 && words.first().is_some_and(is_number) && is_digits(words[1])
}

/// Returns the text after the port of an address: `localhost:8123`, `127.0.0.1:8123`, `http://mill:8123/a`.
fn text_after_port<'w>(label: &str, value: &'w str) -> Option<&'w str> {
    let is_address = label.split('.').count() == 4 && label.split('.').all(is_digits);
    let is_host = is_address || label.ends_with("localhost") || label.ends_with(']') || label.contains("//");
    let (port, path) = value.split_at(value.find('/').unwrap_or(value.len()));
    (is_host && is_digits(port) && (2..=5).contains(&port.len())).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volatile_text_is_not_a_difference() {
        for (one, other) in [
            ("[main 1f3a9b2] fix", "[main 0e8d7c6] fix"),
            ("[main 1234567] fix", "[main 0e8d7c6] fix"),
            ("[detached HEAD 2126291] topic", "[detached HEAD 0ac6d2b] topic"),
            ("error: could not apply 2126291... topic", "error: could not apply fedcbad... topic"),
            ("HEAD is now at 1234567 fix", "HEAD is now at abc1234 fix"),
            ("id 550e8400-e29b-41d4-a716-446655440000", "id 12345678-1234-1234-1234-123456789012"),
            ("run_c54ryvasvyz8jq1a started", "run_gnzd4ct2bj9xq3aa started"),
            ("term_gnzdfct2bj is open", "term_abcdefgh2k is open"),
            ("http://localhost:7878/#/terminals/term_gnzdfct2bj", "http://localhost:41234/#/terminals/term_abcdefgh2k"),
            ("pod/web-7d4b9c6f5-x2x4z created", "pod/web-6c9d8f7b4-x2x4z created"),
            ("[1] 12345", "[1] 678"),
            ("started with pid 4711", "started with pid 12"),
            ("worker (pid=4711) is up", "worker (pid=9) is up"),
            ("sshd[812]: ready", "sshd[90413]: ready"),
            ("Serving on http://127.0.0.1:8123/", "Serving on http://127.0.0.1:44001/"),
            ("Serving at localhost:8123/a/b", "Serving at localhost:41999/a/b"),
            ("listening on port 8123", "listening on port 41999"),
            ("wrote /tmp/tmp.8aX2/out", "wrote /tmp/tmp.Zq91/out"),
            ("=== 5 passed in 0.02s ===", "=== 5 passed in 1.71s ==="),
            ("took 1.5 s in /tmp/a1", "took 22.1 s in /tmp/b7"),
            ("real\t0m0.003s", "real\t2m10.1s"),
            ("time=0.045 ms", "time=10.1 ms"),
            ("2026-01-31 12:00:01 ready", "2026-02-01 08:30:59 ready"),
            ("at 2026-01-31T12:00:01.25Z", "at 2026-02-01T08:30:59Z"),
            ("Sat Jan 31 12:00:01 UTC 2026", "Sun Feb 1 08:30:59 UTC 2026"),
            ("-rw-r--r-- 1 ana ana 12 Jan 31 12:00 a", "-rw-r--r-- 1 ana ana 12 Feb  1 08:30 a"),
            ("created job-48213 in 3 ms", "created job-91000 in 12 ms"),
            ("stamp 1769860800", "stamp 1769947200"),
            ("object at 0x7f3a2b10", "object at 0x55d0c0de"),
            ("[  9%] x (  42 kB) in 0.3 s", "[100%]  x (14242 kB) in 10.25 s\n"),
            ("100% (3/3), 1.20 KiB | 1.20 MiB/s, done.", "100% (3/3), 1.20 KiB | 600.00 KiB/s, done."),
            ("done in 340 ms", "done in 1.2 s"),
            ("updated 3 days ago", "updated 12 days ago"),
        ] {
            assert_eq!(remove_volatile_text(one), remove_volatile_text(other), "{one:?}");
        }
    }

    #[test]
    fn number_in_a_result_is_a_difference() {
        for (one, other) in [
            ("total 6", "total 7"),
            ("5 passed, 1 failed in 0.02s", "6 passed in 0.02s"),
            ("coverage 85%", "coverage 12%"),
            ("1 file changed, 2 insertions(+)", "1 file changed, 3 insertions(+)"),
            ("1234567", "7654321"),
            ("sum=42", "sum=43"),
            ("x = 3.14", "x = 2.71"),
            ("ratio 3:1", "ratio 4:1"),
            ("version 1.2.3", "version 1.2.4"),
            ("utf-16", "utf-32"),
            ("Rows: 12", "Rows: 13"),
            ("-rw-r--r-- 1 ana ana 120 Jan 31 12:00 a", "-rw-r--r-- 1 ana ana 130 Jan 31 12:00 a"),
            ("[100%] x", "[100%] y"),
            ("May 3 be with you, 42", "Might 3 be with you, 42"),
        ] {
            assert_ne!(remove_volatile_text(one), remove_volatile_text(other), "{one:?}");
        }
    }

    #[test]
    fn numbers_in_a_question_are_interchangeable() {
        assert_eq!(without_numbers("Install 3 files? "), without_numbers("Install 12 files? "));
        assert_ne!(without_numbers("Install 3 files? "), without_numbers("Remove 3 files? "));
    }
}
