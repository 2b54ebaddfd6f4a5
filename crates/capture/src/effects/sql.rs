//! Effects of database statements, by their first words.

use super::Effect;
use super::table::list_contains;

/// Effect of text for a database client.
pub(super) enum SqlEffect {
    Known(Effect),
    /// The client passes this line to a shell.
    Shell(String),
}

/// First words of statements that destroy no stored data.
const REVERSIBLE_WORDS: &str = "select show describe desc explain use set begin start commit end rollback savepoint release pragma values with table help \
    analyze fetch declare close listen notify check";
/// First words of other statements without a loss.
const ADDING_WORDS: &str = "create insert comment lock unlock prepare execute";

/// First words of statements that remove or overwrite something.
const DESTRUCTIVE_WORDS: &str =
    "drop truncate delete update alter revoke vacuum reindex merge kill shutdown purge flush reset";

/// Commands of database clients that only print, or set the session.
const CLIENT_COMMANDS: &str = ".tables .schema .quit .exit .headers .header .mode .databases .help .show .indexes .timer .width .nullvalue .dump .stats \
    .fullschema .echo .print .separator .changes .open \\d \\dt \\di \\dv \\df \\dn \\du \\l \\q \\x \\c \\conninfo \\timing \\pset \\a \\t \\? \\h \\encoding \\d+ \\dt+ \\l+ \\u quit exit help status";

/// Commands of database clients that print, or write the file that is named after them.
const FILE_COMMANDS: &str = "\\g \\s";

/// Returns the effect of text for a database client.
pub(super) fn judge_text(text: &str) -> SqlEffect {
    let text = text.trim();
    let first = text.split_whitespace().next().unwrap_or_default().trim_end_matches(';');
    for prefix in [".shell ", ".system ", "\\! ", "system "] {
        if let Some(line) = text.strip_prefix(prefix) {
            return SqlEffect::Shell(line.to_owned());
        }
    }
    if first.starts_with(['.', '\\']) || list_contains("quit exit help status", first) {
        let prints = list_contains(CLIENT_COMMANDS, first) || text == first && list_contains(FILE_COMMANDS, first);
        // The output may go to a program, and `.open --new` empties a database.
        let is_known = prints && !text.contains(['|', '`']) && !text.contains("--new");
        return SqlEffect::Known(if is_known { Effect::Reversible } else { Effect::Unknown });
    }
    let statements = bare_statements(text);
    // A client command, such as `\gexec` (it executes the result of a statement).
    if statements.contains('\\') {
        return SqlEffect::Known(Effect::Unknown);
    }
    SqlEffect::Known(statements.split(';').map(judge_statement).max().unwrap_or(Effect::Reversible))
}

fn judge_statement(statement: &str) -> Effect {
    let lower = statement.to_lowercase();
    let words: Vec<&str> = lower
        .split(|character: char| !character.is_alphanumeric() && character != '_')
        .filter(|word| !word.is_empty())
        .collect();
    let Some(first) = words.first() else { return Effect::Reversible };
    let has = |list: &str| words.iter().any(|word| list_contains(list, word));
    if list_contains(DESTRUCTIVE_WORDS, first) {
        return Effect::Irreversible;
    }
    // `select … for update`, `on delete cascade` and `on conflict do update` are clauses, not statements.
    let is_clause = |index: usize| index > 0 && list_contains("for on do before after", words[index - 1]);
    let is_destructive = words
        .iter()
        .enumerate()
        .any(|(index, word)| list_contains("drop truncate delete update alter", word) && !is_clause(index));
    match *first {
        "explain" | "with" | "prepare" | "execute" | "do" | "call" | "begin" if is_destructive => Effect::Irreversible,
        "select" if has("outfile dumpfile pg_terminate_backend lo_unlink pg_drop_replication_slot") => Effect::Unknown,
        "create" | "insert" if has("or") && has("replace ignore abort") || has("conflict duplicate") => Effect::Unknown,
        // `into` creates a table, or writes a file.
        "select" | "with" if has("into") => Effect::Unknown,
        // A function may do anything.
        "select" | "values" | "insert" | "with" | "table" if calls_unlisted_function(&lower) => Effect::Unknown,
        "copy" if lower.trim_end().ends_with("to stdout") && !calls_unlisted_function(&lower) => Effect::Reversible,
        "pragma" | "set" if statement.contains('=') && *first == "pragma" => Effect::Unknown,
        "execute" | "prepare" | "do" | "call" => Effect::Unknown,
        first if list_contains(REVERSIBLE_WORDS, first) || list_contains(ADDING_WORDS, first) => Effect::Reversible,
        _ => Effect::Unknown,
    }
}

/// Functions and keywords before a parenthesis that change nothing.
const HARMLESS_FUNCTIONS: &str = "count sum min max avg coalesce nullif ifnull isnull length char_length lower upper trim ltrim rtrim substr substring replace round \
    floor ceil ceiling abs mod power sqrt now current_timestamp current_date date time datetime strftime julianday extract date_trunc date_part age to_char \
    to_date to_timestamp to_number cast convert concat concat_ws group_concat string_agg array_agg json_agg jsonb_agg json_build_object json_extract \
    json_object row_number rank dense_rank lag lead first_value last_value ntile over partition filter within version database schema user current_user \
    session_user current_database current_schema pg_size_pretty pg_database_size pg_total_relation_size pg_relation_size hex unhex md5 sha1 sha2 random rand \
    greatest least if iif case when position instr left right lpad rpad reverse repeat array unnest generate_series format quote in exists any all some \
    and or not on using as from where values into key unique primary references check default varchar char decimal numeric int integer float by having join \
    union except intersect then else like between limit offset set total glob typeof changes last_insert_rowid row";

/// Returns whether a statement calls a function that is not listed.
fn calls_unlisted_function(statement: &str) -> bool {
    statement.match_indices('(').any(|(index, _)| {
        let before = statement[..index].trim_end();
        let is_name_character = |character: char| character.is_alphanumeric() || character == '_' || character == '.';
        let name = before.rsplit(|character: char| !is_name_character(character)).next().unwrap_or_default();
        let is_table = before[..before.len() - name.len()].trim_end().ends_with("into");
        !name.is_empty() && !is_table && !list_contains(HARMLESS_FUNCTIONS, name)
    })
}

/// Returns statements without comments and quoted text.
fn bare_statements(text: &str) -> String {
    let (mut bare, mut rest) = (String::new(), text);
    while let Some(character) = rest.chars().next() {
        let end = match character {
            '\'' | '"' | '`' => rest[1..].find(character).map(|end| end + 2),
            '-' if rest.starts_with("--") => rest.find('\n').or(Some(rest.len())),
            // MySQL executes a comment that begins with `/*!`.
            '/' if rest.starts_with("/*") && !rest.starts_with("/*!") => rest.find("*/").map(|end| end + 2),
            _ => {
                bare.push(character);
                Some(character.len_utf8())
            }
        };
        if matches!(character, '\'' | '"' | '`') || rest.starts_with("/*") {
            bare.push(' ');
        }
        rest = &rest[end.unwrap_or(rest.len())..];
    }
    bare
}

/// Returns whether text for any program has destructive database statements.
pub(super) fn is_destructive(text: &str) -> bool {
    bare_statements(text).split(';').any(|statement| {
        let lower = statement.to_lowercase();
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
