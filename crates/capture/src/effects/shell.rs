//! Walk of a shell line by the grammar of shells: nested commands, lines for other shells, redirections, and assigned
//! variables.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use shuck_ast::{
    ArrayElem, Assignment, AssignmentValue, BinaryOp, BourneParameterExpansion, BuiltinCommand, Command,
    CompoundCommand, DeclOperand, HeredocBodyPart, LiteralText, Redirect, RedirectKind, RedirectTarget, Stmt, StmtSeq,
    Word, WordPart, WordPartNode, static_command_name_text,
};
use shuck_parser::parser::Parser;

use super::paths::Directories;
use super::readers::OtherReadings;
use super::table::list_contains;
use super::{Effect, Judgement, excerpt};

/// Maximum length of a line. A longer line has an unknown effect.
const MAX_LINE_BYTES: usize = 64 << 10;
/// Maximum nesting depth of lines.
const MAX_LEVELS: u32 = 6;

/// Level of the typed line; scripts in it have higher levels.
const TYPED_LEVEL: u32 = 1;

/// Maximum number of lines to judge, including the typed line.
const MAX_LINES: usize = 200;

/// Judge of a line, and of the lines for other shells in it.
#[derive(Default)]
pub(super) struct Judge {
    pub(super) judgement: Judgement,
    /// The programs that the line runs, each once.
    pub(super) programs: Vec<String>,
    functions: BTreeSet<String>,
    /// Possible working directories of the next command.
    pub(super) directories: Directories,
    /// Names of the files with new content from the line.
    pub(super) written_names: BTreeSet<String>,
    /// Values that the line assigns to variables.
    pub(super) assigned_values: BTreeMap<String, Argument>,
    /// A written file whose path names a home directory, possibly of another user.
    pub(super) file_in_named_home: Option<String>,
    /// True after `set -a`: the shell exports each variable that it assigns.
    pub(super) exports_all: bool,
    queued_lines: VecDeque<QueuedLine>,
    line_count: usize,
    level: u32,
}

/// A line for another shell.
struct QueuedLine {
    line: String,
    level: u32,
    stdin: Stdin,
    directories: Directories,
}

/// One word of a command.
#[derive(Debug, Clone)]
pub(super) struct Argument {
    /// The text of a fixed word without its quotes; any other word as written.
    pub(super) text: String,
    /// True if the text is known: `~` and `.` stand for the home and the working directory.
    pub(super) is_fixed: bool,
}

impl Argument {
    /// Returns the text, if known.
    pub(super) fn fixed(&self) -> Option<&str> {
        Some(self.text.as_str()).filter(|_| self.is_fixed)
    }

    pub(super) fn unknown() -> Self {
        Self { text: "…".to_owned(), is_fixed: false }
    }
}

/// The standard input of a command.
#[derive(Debug, Clone)]
pub(super) enum Stdin {
    /// The terminal, if the line determines no other input.
    Terminal,
    /// This text.
    Text(String),
    /// Unknown text.
    Unknown,
}

impl Judge {
    /// Judges a line and all lines nested in it.
    pub(super) fn from_line(line: &str) -> Self {
        let mut judge = Self::default();
        judge.queue_line(line.to_owned());
        judge.judge_queued_lines();
        judge
    }

    /// Judges the queued lines. The queue avoids recursion from line to nested line.
    fn judge_queued_lines(&mut self) {
        while let Some(QueuedLine { line, level, stdin, directories }) = self.queued_lines.pop_front() {
            (self.level, self.directories) = (level, directories);
            self.line_count += 1;
            if line.len() > MAX_LINE_BYTES || level > MAX_LEVELS || self.line_count > MAX_LINES {
                self.record_effect(Effect::Unknown, &line);
            } else {
                self.judge_line(&line, &stdin);
            }
        }
    }

    /// Judges the queued lines and returns the judgement of all lines.
    pub(super) fn finish(mut self) -> Judgement {
        self.judge_queued_lines();
        self.judgement
    }

    /// Queues a line that another shell reads.
    pub(super) fn queue_line(&mut self, line: String) {
        self.queue_line_with_input(line, Stdin::Terminal);
    }

    /// Queues a line that another shell reads, with the standard input of its commands.
    pub(super) fn queue_line_with_input(&mut self, line: String, stdin: Stdin) {
        let directories = self.directories.clone();
        self.queued_lines.push_back(QueuedLine { line, level: self.level + 1, stdin, directories });
    }

    pub(super) fn record_effect(&mut self, effect: Effect, what: &str) {
        if effect > self.judgement.effect {
            (self.judgement.effect, self.judgement.evidence) = (effect, excerpt(what));
        }
    }

    /// Records a program of the project. Its file is not read.
    pub(super) fn record_project_program(&mut self, what: &str) {
        self.record_effect(Effect::Reversible, what);
        let what = excerpt(what);
        if !self.judgement.project_programs.contains(&what) {
            self.judgement.project_programs.push(what);
        }
    }

    fn judge_line(&mut self, line: &str, stdin: &Stdin) {
        let parsed = Parser::new(line).parse();
        if !parsed.is_ok() {
            self.record_effect(Effect::Unknown, line);
        }
        Walker { judge: self, source: line }.judge_statements_with_input(&parsed.file.body, stdin);
        if self.level == TYPED_LEVEL {
            self.judge_other_readings(line);
        }
    }

    /// Judges the parts of a typed line that other shells parse differently.
    fn judge_other_readings(&mut self, line: &str) {
        let readings = OtherReadings::from_line(line);
        if readings.has_history_expansion || readings.has_ambiguous_quotes {
            self.record_effect(Effect::Unknown, line);
        }
        let Some(commands) = readings.commands_in_comments(line) else { return };
        let comments = self.judge_separately(commands);
        self.record_effect(comments.effect, &comments.evidence);
        // Words of a comment are rarely arguments, so only an irreversible effect counts.
        let whole_line = self.judge_separately(readings.escape_comments(line));
        if whole_line.effect == Effect::Irreversible {
            self.record_effect(whole_line.effect, &whole_line.evidence);
        }
    }

    /// Judges a line without adding its programs to the list for this line.
    fn judge_separately(&self, line: String) -> Judgement {
        let mut judge = Self { level: self.level, functions: self.functions.clone(), ..Self::default() };
        judge.queue_line(line);
        judge.finish()
    }

    pub(super) fn is_function(&self, name: &str) -> bool {
        self.functions.contains(name)
    }
}

struct Walker<'j, 's> {
    judge: &'j mut Judge,
    source: &'s str,
}

impl Walker<'_, '_> {
    fn judge_statements(&mut self, statements: &StmtSeq) {
        self.judge_statements_with_input(statements, &Stdin::Terminal);
    }

    fn judge_statements_with_input(&mut self, statements: &StmtSeq, stdin: &Stdin) {
        for statement in statements.iter() {
            self.judge_statement(statement, stdin);
        }
    }

    fn judge_statement(&mut self, statement: &Stmt, stdin: &Stdin) {
        let (mut stdin, mut is_redirected) = (stdin.clone(), false);
        for redirect in &statement.redirects {
            if let Some(input) = self.judge_redirect(redirect) {
                (stdin, is_redirected) = (input, true);
            }
        }
        match &statement.command {
            Command::Simple(simple) => {
                let mut words = vec![self.judge_word(&simple.name)];
                words.extend(simple.args.iter().map(|word| self.judge_word(word)));
                let variables = self.judge_assignments(&simple.assignments);
                // A line of assignments alone has no program.
                let is_alone = words.len() == 1 && words[0].fixed() == Some("") && !simple.assignments.is_empty();
                self.judge.judge_variables(&variables, !is_alone);
                if is_alone {
                    self.judge.record_effect(Effect::Reversible, "");
                } else if is_redirected && is_exec_alone(&words) {
                    // The shell reads its next commands from this input.
                    self.judge.judge_shell_input(&stdin, statement.span.slice(self.source));
                } else {
                    self.judge.judge_command(&words, &stdin);
                }
            }
            Command::Builtin(builtin) => {
                let (argument, extra_arguments) = match builtin {
                    BuiltinCommand::Break(builtin) => (&builtin.depth, &builtin.extra_args),
                    BuiltinCommand::Continue(builtin) => (&builtin.depth, &builtin.extra_args),
                    BuiltinCommand::Return(builtin) => (&builtin.code, &builtin.extra_args),
                    BuiltinCommand::Exit(builtin) => (&builtin.code, &builtin.extra_args),
                };
                argument.iter().chain(extra_arguments).for_each(|word| drop(self.judge_word(word)));
                self.judge.record_effect(Effect::Reversible, "");
            }
            Command::Decl(declaration) => {
                self.judge.record_effect(Effect::Reversible, "");
                let mut variables = self.judge_assignments(&declaration.assignments);
                let mut names = Vec::new();
                for operand in &declaration.operands {
                    match operand {
                        DeclOperand::Assignment(assignment) => {
                            variables.extend(self.judge_assignments(std::slice::from_ref(assignment)));
                        }
                        DeclOperand::Flag(word) | DeclOperand::Dynamic(word) => {
                            let word = self.judge_word(word);
                            // The shell also evaluates a quoted subscript.
                            if !word.is_fixed || has_substitution(&word.text) {
                                self.judge.record_effect(Effect::Unknown, &word.text);
                            }
                        }
                        DeclOperand::Name(name) => {
                            self.check_unparsed(name.span.slice(self.source));
                            names.push(name.name.as_str().to_owned());
                        }
                    }
                }
                let words = declaration.span.slice(self.source);
                let has_flag =
                    |flag: char| words.split_whitespace().any(|word| word.starts_with('-') && word.contains(flag));
                let is_export = words.starts_with("export");
                if is_export || has_flag('x') {
                    variables.extend(names.iter().map(|name| (name.clone(), self.judge.assigned_value(name))));
                }
                self.judge.judge_variables(&variables, is_export || has_flag('x'));
                if has_flag('i') {
                    variables.iter().for_each(|(_, value)| self.check_arithmetic(&value.text));
                }
                if has_flag('n') && !is_export {
                    self.judge_references(&variables, &names, words);
                }
            }
            Command::Binary(_) => self.judge_chain(statement, &stdin),
            Command::Compound(compound) => self.judge_compound(compound, &stdin),
            Command::Function(function) => {
                for name in function.static_names() {
                    self.judge.functions.insert(name.as_str().to_owned());
                }
                self.judge.record_effect(Effect::Reversible, "");
                self.judge_statement(&function.body, &Stdin::Unknown);
            }
            Command::AnonymousFunction(function) => self.judge_statement(&function.body, &stdin),
        }
    }

    /// Judges a chain of commands. The chain nests to the left, so a loop can replace recursion.
    fn judge_chain(&mut self, statement: &Stmt, stdin: &Stdin) {
        let (mut chain, mut first_statement) = (Vec::new(), statement);
        while let Command::Binary(binary) = &first_statement.command {
            chain.push((binary.op, &*binary.right, &*binary.left));
            first_statement = &binary.left;
        }
        self.judge_statement(first_statement, stdin);
        for (op, right, left) in chain.into_iter().rev() {
            match op {
                BinaryOp::And | BinaryOp::Or => self.judge_statement(right, stdin),
                BinaryOp::Pipe | BinaryOp::PipeAll => {
                    let pipe_input = self.known_output(left).map_or(Stdin::Unknown, Stdin::Text);
                    self.judge_statement(right, &pipe_input);
                }
            }
        }
    }

    /// Returns the output of a statement, if it follows from the text alone.
    fn known_output(&mut self, statement: &Stmt) -> Option<String> {
        let Command::Simple(simple) = &statement.command else { return None };
        let name = static_command_name_text(&simple.name, self.source)?;
        let words: Vec<Argument> = simple.args.iter().map(|word| self.judge_word(word)).collect();
        let texts: Vec<&str> = words.iter().map(Argument::fixed).collect::<Option<_>>()?;
        match &*name {
            "echo" | "printf" => {
                let texts: Vec<&str> =
                    texts.into_iter().skip_while(|text| ["-n", "-e", "-ne", "--"].contains(text)).collect();
                // Escapes and formats are not evaluated.
                let text = texts.join(if &*name == "echo" { " " } else { "\n" });
                Some(text).filter(|text| !text.contains(['\\', '%']))
            }
            "cat" if texts.is_empty() => {
                let heredoc = statement.redirects.iter().find_map(|redirect| self.judge_redirect(redirect));
                match heredoc {
                    Some(Stdin::Text(text)) => Some(text),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn judge_compound(&mut self, compound: &CompoundCommand, stdin: &Stdin) {
        self.judge.record_effect(Effect::Reversible, "");
        match compound {
            CompoundCommand::If(command) => {
                self.judge_statements(&command.condition);
                self.judge_statements_with_input(&command.then_branch, stdin);
                for (condition, branch) in &command.elif_branches {
                    self.judge_statements(condition);
                    self.judge_statements_with_input(branch, stdin);
                }
                command.else_branch.iter().for_each(|branch| self.judge_statements_with_input(branch, stdin));
            }
            CompoundCommand::For(command) => {
                let words = command.words.as_deref();
                for target in &command.targets {
                    match &target.name {
                        Some(name) => self.judge_loop_variable(name.as_str(), words),
                        None => self.judge.record_effect(Effect::Unknown, target.span.slice(self.source)),
                    }
                }
                self.judge_loop_body(&command.body, stdin);
            }
            CompoundCommand::Repeat(command) => {
                self.judge_word(&command.count);
                self.judge_loop_body(&command.body, stdin);
            }
            CompoundCommand::Foreach(command) => {
                self.judge_loop_variable(command.variable.as_str(), Some(&command.words));
                self.judge_loop_body(&command.body, stdin);
            }
            CompoundCommand::Select(command) => {
                self.judge_loop_variable(command.variable.as_str(), Some(&command.words));
                self.judge_loop_body(&command.body, stdin);
            }
            CompoundCommand::ArithmeticFor(command) => {
                let body = command.body.span.slice(self.source);
                let head = command.span.slice(self.source);
                self.check_arithmetic(head.split_once(body).map_or(head, |(head, _)| head));
                self.judge_loop_body(&command.body, stdin);
            }
            CompoundCommand::While(command) => {
                self.judge_loop_body(&command.condition, stdin);
                self.judge_loop_body(&command.body, stdin);
            }
            CompoundCommand::Until(command) => {
                self.judge_loop_body(&command.condition, stdin);
                self.judge_loop_body(&command.body, stdin);
            }
            CompoundCommand::Case(command) => {
                self.judge_word(&command.word);
                for case in &command.cases {
                    case.patterns.iter().for_each(|pattern| self.check_unparsed(pattern.span.slice(self.source)));
                    self.judge_statements_with_input(&case.body, stdin);
                }
            }
            CompoundCommand::Subshell(body) => self.judge_subshell(body, stdin),
            CompoundCommand::BraceGroup(body) => self.judge_statements_with_input(body, stdin),
            CompoundCommand::Arithmetic(command) => self.check_arithmetic(command.span.slice(self.source)),
            CompoundCommand::Conditional(command) => {
                let text = command.span.slice(self.source);
                let is_arithmetic =
                    ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"].iter().any(|operator| text.contains(operator));
                if is_arithmetic { self.check_arithmetic(text) } else { self.check_unparsed(text) }
            }
            CompoundCommand::Time(command) => {
                command.command.iter().for_each(|timed| self.judge_statement(timed, stdin));
            }
            CompoundCommand::Coproc(command) => {
                self.judge.judge_variables(&[(command.name.as_str().to_owned(), Argument::unknown())], false);
                self.judge_statement(&command.body, &Stdin::Unknown);
            }
            CompoundCommand::Always(command) => {
                self.judge_statements_with_input(&command.body, stdin);
                self.judge_statements_with_input(&command.always_body, stdin);
            }
        }
    }

    /// Judges the commands of a subshell, then restores the working directory.
    fn judge_subshell(&mut self, body: &StmtSeq, stdin: &Stdin) {
        let directories = self.judge.directories.clone();
        self.judge_statements_with_input(body, stdin);
        self.judge.directories = directories;
    }

    /// Judges the commands of a loop. If the commands change the working directory, later iterations start in an
    /// unknown directory.
    fn judge_loop_body(&mut self, body: &StmtSeq, stdin: &Stdin) {
        if changes_directory(body.span.slice(self.source)) {
            self.judge.directories.forget();
        }
        self.judge_statements_with_input(body, stdin);
    }

    /// Judges a part whose words are not parsed: its effect is unknown if it may contain commands.
    fn check_unparsed(&mut self, part: &str) {
        let inner = part.strip_prefix("$((").or_else(|| part.strip_prefix("$[")).unwrap_or(part);
        // `@P` evaluates a value, and `!` reads a variable by a computed name.
        let lists_keys =
            part.ends_with("[@]}") || part.ends_with("[*]}") || part.ends_with("@}") || part.ends_with("*}");
        let is_evaluated = part.starts_with("${") && part.contains("@P}") || part.starts_with("${!") && !lists_keys;
        if is_evaluated || has_substitution(inner) || inner.contains("<(") || inner.contains(">(") {
            self.judge.record_effect(Effect::Unknown, part);
        }
        // `${X:=value}` assigns a variable.
        for (name, value) in default_assignments(part) {
            let is_fixed = !value.contains(['$', '`', '\\', super::VALUE_PLACEHOLDER]);
            let value = Argument { text: value.trim_matches(['"', '\'']).to_owned(), is_fixed };
            self.judge.judge_variables(&[(name.to_owned(), value)], false);
        }
    }

    /// Judges an arithmetic expression by its nested commands and the variables that it assigns.
    fn check_arithmetic(&mut self, expression: &str) {
        self.check_unparsed(expression);
        self.judge.judge_arithmetic(expression);
    }

    /// Judges the variable of a loop: it gets each of the words, or the unknown arguments of the shell.
    fn judge_loop_variable(&mut self, name: &str, words: Option<&[Word]>) {
        let values: Vec<Argument> = match words {
            Some(words) => words.iter().map(|word| self.judge_word(word)).collect(),
            None => vec![Argument::unknown()],
        };
        let variables: Vec<_> = values.into_iter().map(|value| (name.to_owned(), value)).collect();
        self.judge.judge_variables(&variables, false);
    }

    /// Judges declared references (`declare -n`): an assignment to a reference sets the variable that it names.
    fn judge_references(&mut self, variables: &[(String, Argument)], names: &[String], declaration: &str) {
        if !names.is_empty() {
            self.judge.record_effect(Effect::Unknown, declaration);
        }
        for (_, target) in variables {
            self.judge.judge_variables(&[(target.text.clone(), Argument::unknown())], false);
            if !target.is_fixed {
                self.judge.record_effect(Effect::Unknown, declaration);
            }
        }
    }

    fn judge_assignments(&mut self, assignments: &[Assignment]) -> Vec<(String, Argument)> {
        let mut variables = Vec::new();
        for assignment in assignments {
            if let Some(subscript) = &assignment.target.subscript {
                self.check_arithmetic(subscript.span().slice(self.source));
            }
            match &assignment.value {
                AssignmentValue::Scalar(word) => {
                    variables.push((assignment.target.name.as_str().to_owned(), self.judge_word(word)));
                }
                AssignmentValue::Compound(array) => {
                    for element in &array.elements {
                        match element {
                            ArrayElem::Sequential(value) => {
                                variables
                                    .push((assignment.target.name.as_str().to_owned(), self.judge_word(&value.word)));
                            }
                            _ => self.check_unparsed(array.span.slice(self.source)),
                        }
                    }
                }
            }
        }
        variables
    }

    /// Judges the file that a redirection writes and returns the standard input that it provides.
    fn judge_redirect(&mut self, redirect: &Redirect) -> Option<Stdin> {
        if let Some(name) = &redirect.fd_var {
            self.judge.judge_variables(&[(name.as_str().to_owned(), Argument::unknown())], false);
        }
        let input = self.judge_redirect_target(redirect);
        // Without a file descriptor, the kind of the redirection decides.
        let is_stdin = redirect.fd_var.is_none() && redirect.fd.is_none_or(|fd| fd == 0);
        match input {
            Some(input) => is_stdin.then_some(input),
            None => (redirect.fd == Some(0)).then_some(Stdin::Unknown),
        }
    }

    fn judge_redirect_target(&mut self, redirect: &Redirect) -> Option<Stdin> {
        match &redirect.target {
            RedirectTarget::Heredoc(heredoc) => {
                let (mut text, mut is_known) = (String::new(), true);
                for (part, span) in heredoc.body.parts_with_spans() {
                    match part {
                        HeredocBodyPart::Literal(literal) => text.push_str(literal.as_str(self.source, span)),
                        HeredocBodyPart::CommandSubstitution { body, .. } => {
                            is_known = false;
                            self.judge_subshell(body, &Stdin::Terminal);
                        }
                        _ => {
                            is_known = false;
                            self.check_unparsed(span.slice(self.source));
                        }
                    }
                }
                Some(if is_known { Stdin::Text(text) } else { Stdin::Unknown })
            }
            RedirectTarget::Word(word) => {
                let word = self.judge_word(word);
                match redirect.kind {
                    RedirectKind::HereString => {
                        Some(word.fixed().map_or(Stdin::Unknown, |text| Stdin::Text(text.to_owned())))
                    }
                    RedirectKind::Input => Some(match word.fixed() {
                        Some("/dev/null") => Stdin::Text(String::new()),
                        Some("/dev/tty") => Stdin::Terminal,
                        _ => Stdin::Unknown,
                    }),
                    RedirectKind::ReadWrite => {
                        self.judge.judge_written_file(&word);
                        Some(Stdin::Unknown)
                    }
                    RedirectKind::HereDoc | RedirectKind::HereDocStrip | RedirectKind::DupInput => Some(Stdin::Unknown),
                    RedirectKind::DupOutput
                        if word.text.chars().all(|character| character.is_ascii_digit() || character == '-') =>
                    {
                        None
                    }
                    RedirectKind::Append
                    | RedirectKind::Output
                    | RedirectKind::Clobber
                    | RedirectKind::DupOutput
                    | RedirectKind::OutputBoth => {
                        self.judge.judge_written_content(&word);
                        None
                    }
                }
            }
        }
    }

    /// Judges the commands in a word and returns the word.
    fn judge_word(&mut self, word: &Word) -> Argument {
        self.judge_parts(&word.parts);
        if let Some(text) = static_command_name_text(word, self.source) {
            let is_fixed =
                !word.has_active_brace_expansion() && !has_placeholder(&text) && !self.has_escapes(&word.parts);
            return Argument { is_fixed: is_fixed && !self.has_glob(&word.parts), text: text.into_owned() };
        }
        let mut text = String::new();
        let is_fixed =
            self.append_known_text(&word.parts, &mut text) && !has_placeholder(&text) && !self.has_glob(&word.parts);
        if !is_fixed {
            text = word.span.slice(self.source).to_owned();
        }
        Argument { text, is_fixed }
    }

    /// Appends the text of a word to `text`. Returns false if the word has expansions other than the home and working
    /// directory.
    fn append_known_text(&self, parts: &[WordPartNode], text: &mut String) -> bool {
        parts.iter().all(|part| match &part.kind {
            WordPart::Literal(literal) => {
                text.push_str(literal.as_str(self.source, part.span));
                true
            }
            WordPart::SingleQuoted { value, dollar: false } => {
                text.push_str(value.slice(self.source));
                true
            }
            WordPart::DoubleQuoted { parts, .. } => self.append_known_text(parts, text),
            _ => match part.span.slice(self.source) {
                "$HOME" | "${HOME}" => {
                    text.push('~');
                    true
                }
                "$PWD" | "${PWD}" | "$(pwd)" | "`pwd`" => {
                    text.push('.');
                    true
                }
                _ => false,
            },
        })
    }

    /// Judges the commands in the parts of a word.
    fn judge_parts(&mut self, parts: &[WordPartNode]) {
        for part in parts {
            match &part.kind {
                WordPart::Literal(_) | WordPart::SingleQuoted { .. } | WordPart::Variable(_) => {}
                WordPart::DoubleQuoted { parts, .. } => self.judge_parts(parts),
                WordPart::CommandSubstitution { body, .. } | WordPart::ProcessSubstitution { body, .. } => {
                    self.judge_subshell(body, &Stdin::Terminal);
                }
                // Unparsable arithmetic may be a nested command.
                WordPart::ArithmeticExpansion { expression_ast: None, .. } => {
                    self.judge.record_effect(Effect::Unknown, part.span.slice(self.source));
                }
                WordPart::ArithmeticExpansion { .. }
                | WordPart::Substring { .. }
                | WordPart::ArraySlice { .. }
                | WordPart::ArrayAccess(_) => self.check_arithmetic(part.span.slice(self.source)),
                WordPart::Parameter(expansion)
                    if matches!(
                        expansion.bourne(),
                        Some(BourneParameterExpansion::Slice { .. } | BourneParameterExpansion::Access { .. })
                    ) =>
                {
                    self.check_arithmetic(part.span.slice(self.source));
                }
                _ => self.check_unparsed(part.span.slice(self.source)),
            }
        }
    }

    /// Returns whether a word has C escapes (`$'\n'`). They are not decoded.
    fn has_escapes(&self, parts: &[WordPartNode]) -> bool {
        parts.iter().any(|part| match &part.kind {
            WordPart::SingleQuoted { dollar: true, .. } => part.span.slice(self.source).contains('\\'),
            WordPart::DoubleQuoted { parts, .. } => self.has_escapes(parts),
            _ => false,
        })
    }

    /// Returns whether the shell may expand a word to file names.
    fn has_glob(&self, parts: &[WordPartNode]) -> bool {
        parts.iter().any(|part| match &part.kind {
            WordPart::Literal(LiteralText::Source | LiteralText::CookedSource(_)) => {
                let text = part.span.slice(self.source);
                text != "[" && text != "[[" && text.contains(['*', '?', '['])
            }
            WordPart::ZshQualifiedGlob(_) => true,
            _ => false,
        })
    }
}

/// Returns whether text contains a command substitution.
pub(super) fn has_substitution(text: &str) -> bool {
    text.contains('`') || text.contains("$(")
}

/// Returns whether a command is `exec` without a program. Such a command redirects the shell itself.
fn is_exec_alone(words: &[Argument]) -> bool {
    let mut texts = words.iter().map(|word| word.text.as_str());
    let is_wrapper = |text: &&str| ["command", "builtin", "--"].contains(text) || text.starts_with('-');
    if texts.by_ref().find(|text| !is_wrapper(text)) != Some("exec") {
        return false;
    }
    while let Some(text) = texts.next() {
        let Some(letters) = text.strip_prefix('-') else { return false };
        if letters.ends_with('a') {
            // The value of `-a`, the name of the program.
            texts.next();
        }
    }
    true
}

/// Returns the variables that expansions assign (`${X=…}`, `${X:=…}`, `${X::=…}` of zsh), with their values.
fn default_assignments(text: &str) -> Vec<(&str, &str)> {
    let assignment = |(start, opening): (usize, &str)| {
        let inside = text[start + opening.len()..].trim_start_matches('!');
        let inside = match inside.strip_prefix('(') {
            // Flags of zsh precede the name.
            Some(flags) => flags.split_once(')')?.1,
            None => inside,
        };
        let name = inside.trim_end_matches(inside.trim_start_matches(is_name_character));
        let mut rest = &inside[name.len()..];
        if let Some(subscript) = rest.strip_prefix('[') {
            rest = subscript.split_once(']')?.1;
        }
        let value = rest.trim_start_matches(':').strip_prefix('=')?;
        Some((name, value.split_once('}').map_or(value, |(value, _)| value)))
    };
    text.match_indices("${").filter_map(assignment).collect()
}

/// Returns whether text may contain a command that changes the working directory.
pub(super) fn changes_directory(text: &str) -> bool {
    text.split(|character| !is_name_character(character)).any(|word| list_contains("cd pushd popd", word))
}

/// Returns whether a character may be in the name of a variable.
pub(super) fn is_name_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Returns the names that an arithmetic expression assigns, increments or decrements.
pub(super) fn arithmetic_assignments(expression: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = expression;
    let mut before = "";
    while let Some(start) = rest.find(is_name_character) {
        before = if start > 0 { &rest[..start] } else { before };
        rest = &rest[start..];
        let end = rest.find(|character| !is_name_character(character)).unwrap_or(rest.len());
        let name = &rest[..end];
        rest = &rest[end..];
        let mut after = rest.trim_start();
        if let Some(subscript) = after.strip_prefix('[') {
            after = subscript.split_once(']').map_or("", |(_, after)| after).trim_start();
        }
        let operator = after.trim_start_matches(['+', '-', '*', '/', '%', '<', '>', '&', '^', '|']);
        let is_assigned = operator.starts_with('=') && !operator.starts_with("==")
            || ["++", "--"].iter().any(|step| after.starts_with(step) || before.trim_end().ends_with(step));
        // `$X` is a value.
        if is_assigned && !before.ends_with('$') {
            names.push(name);
        }
        before = "";
    }
    names
}

/// Returns whether text contains the placeholder for a variable of a machine.
fn has_placeholder(text: &str) -> bool {
    text.contains(super::VALUE_PLACEHOLDER)
}
