//! The commands of a shell line, as its grammar has them: nested commands, lines for other shells, redirections.

use std::collections::{BTreeSet, VecDeque};

use shuck_ast::{
    ArrayElem, Assignment, AssignmentValue, BinaryOp, BuiltinCommand, Command, CompoundCommand, DeclOperand,
    HeredocBodyPart, LiteralText, Redirect, RedirectKind, RedirectTarget, Stmt, StmtSeq, Word, WordPart, WordPartNode,
    static_command_name_text,
};
use shuck_parser::parser::Parser;

use super::{Effect, Judgement, excerpt};

/// Maximum bytes of a readable line, and maximum levels of lines within lines.
const MAX_LINE_BYTES: usize = 64 << 10;
const MAX_LEVELS: u32 = 6;

/// Maximum number of lines read within a line.
const MAX_LINES: usize = 200;

/// Judges a line, and the lines for other shells in it, one after the other.
#[derive(Default)]
pub(super) struct Judge {
    pub(super) judgement: Judgement,
    /// The programs that are run, each once.
    pub(super) programs: Vec<String>,
    functions: BTreeSet<String>,
    /// Lines for other shells, with their level and what they read.
    open: VecDeque<(String, u32, Stdin)>,
    lines: usize,
    level: u32,
}

/// One word of a command.
#[derive(Debug, Clone)]
pub(super) struct Argument {
    /// The text of the word, without quotes. Its unknown parts remain as written.
    pub(super) text: String,
    /// Returns whether the shell gives exactly this text to the program.
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
    /// The terminal, or nothing that the line gives it.
    Terminal,
    /// This text.
    Text(String),
    /// Something unknown.
    Unseen,
}

impl Judge {
    /// Judges a line with everything nested in it.
    pub(super) fn from_line(line: &str) -> Self {
        let mut judge = Self::default();
        judge.give(line.to_owned());
        judge.read_given();
        judge
    }

    /// Judges the lines for other shells. One after the other: nothing nests deeper than the grammar allows.
    fn read_given(&mut self) {
        while let Some((line, level, stdin)) = self.open.pop_front() {
            self.level = level;
            self.lines += 1;
            if line.len() > MAX_LINE_BYTES || level > MAX_LEVELS || self.lines > MAX_LINES {
                self.note_effect(Effect::Unknown, &line);
            } else {
                self.line(&line, &stdin);
            }
        }
    }

    /// Returns the judgement, with the lines for other shells.
    pub(super) fn finish(mut self) -> Judgement {
        self.read_given();
        self.judgement
    }

    /// Notes a line that another shell reads.
    pub(super) fn give(&mut self, line: String) {
        self.give_reading(line, Stdin::Terminal);
    }

    /// Notes a line that another shell reads, whose commands read this.
    pub(super) fn give_reading(&mut self, line: String, stdin: Stdin) {
        self.open.push_back((line, self.level + 1, stdin));
    }

    pub(super) fn note_effect(&mut self, effect: Effect, what: &str) {
        if effect > self.judgement.effect {
            (self.judgement.effect, self.judgement.because) = (effect, excerpt(what));
        }
    }

    /// Notes a program of the project, which is a file that this does not read.
    pub(super) fn unseen(&mut self, what: &str) {
        self.note_effect(Effect::Reversible, what);
        let what = excerpt(what);
        if !self.judgement.unseen.contains(&what) {
            self.judgement.unseen.push(what);
        }
    }

    fn line(&mut self, line: &str, stdin: &Stdin) {
        let parsed = Parser::new(line).parse();
        if !parsed.is_ok() {
            self.note_effect(Effect::Unknown, line);
        }
        Walker { judge: self, source: line }.statements_reading(&parsed.file.body, stdin);
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
    fn statements(&mut self, all: &StmtSeq) {
        self.statements_reading(all, &Stdin::Terminal);
    }

    fn statements_reading(&mut self, all: &StmtSeq, stdin: &Stdin) {
        for statement in all.iter() {
            self.statement(statement, stdin);
        }
    }

    fn statement(&mut self, statement: &Stmt, stdin: &Stdin) {
        let mut stdin = stdin.clone();
        for redirect in &statement.redirects {
            if let Some(given) = self.redirect(redirect) {
                stdin = given;
            }
        }
        match &statement.command {
            Command::Simple(simple) => {
                let mut words = vec![self.argument(&simple.name)];
                words.extend(simple.args.iter().map(|word| self.argument(word)));
                let variables = self.assignments(&simple.assignments);
                // A line of assignments alone has no program.
                let is_alone = words.len() == 1 && words[0].fixed() == Some("") && !simple.assignments.is_empty();
                self.judge.variables(&variables, !is_alone);
                if is_alone {
                    self.judge.note_effect(Effect::Reversible, "");
                } else {
                    self.judge.command(&words, &stdin);
                }
            }
            Command::Builtin(builtin) => {
                let (first, more) = match builtin {
                    BuiltinCommand::Break(one) => (&one.depth, &one.extra_args),
                    BuiltinCommand::Continue(one) => (&one.depth, &one.extra_args),
                    BuiltinCommand::Return(one) => (&one.code, &one.extra_args),
                    BuiltinCommand::Exit(one) => (&one.code, &one.extra_args),
                };
                first.iter().chain(more).for_each(|word| drop(self.argument(word)));
                self.judge.note_effect(Effect::Reversible, "");
            }
            Command::Decl(declaration) => {
                self.judge.note_effect(Effect::Reversible, "");
                let mut variables = self.assignments(&declaration.assignments);
                for operand in &declaration.operands {
                    match operand {
                        DeclOperand::Assignment(one) => variables.extend(self.assignments(std::slice::from_ref(one))),
                        DeclOperand::Flag(word) | DeclOperand::Dynamic(word) => {
                            let word = self.argument(word);
                            // The shell evaluates a subscript in quotes, too.
                            if !word.is_fixed || has_substitution(&word.text) {
                                self.judge.note_effect(Effect::Unknown, &word.text);
                            }
                        }
                        DeclOperand::Name(name) => self.plain(name.span.slice(self.source)),
                    }
                }
                let words = declaration.span.slice(self.source);
                let is_exported = words.starts_with("export")
                    || words.split_whitespace().any(|word| word.starts_with('-') && word.contains('x'));
                self.judge.variables(&variables, is_exported);
            }
            Command::Binary(_) => self.binary(statement, &stdin),
            Command::Compound(compound) => self.compound(compound, &stdin),
            Command::Function(function) => {
                for name in function.static_names() {
                    self.judge.functions.insert(name.as_str().to_owned());
                }
                self.judge.note_effect(Effect::Reversible, "");
                self.statement(&function.body, &Stdin::Unseen);
            }
            Command::AnonymousFunction(function) => self.statement(&function.body, &stdin),
        }
    }

    /// Judges a chain of commands. It nests to the left, so that the walk of a long one needs no recursion.
    fn binary(&mut self, statement: &Stmt, stdin: &Stdin) {
        let (mut chain, mut at) = (Vec::new(), statement);
        while let Command::Binary(binary) = &at.command {
            chain.push((binary.op, &*binary.right, &*binary.left));
            at = &binary.left;
        }
        self.statement(at, stdin);
        for (op, right, left) in chain.into_iter().rev() {
            match op {
                BinaryOp::And | BinaryOp::Or => self.statement(right, stdin),
                BinaryOp::Pipe | BinaryOp::PipeAll => {
                    let printed = self.printed(left).map_or(Stdin::Unseen, Stdin::Text);
                    self.statement(right, &printed);
                }
            }
        }
    }

    /// Returns what a statement prints, where its text has that.
    fn printed(&mut self, statement: &Stmt) -> Option<String> {
        let Command::Simple(simple) = &statement.command else { return None };
        let name = static_command_name_text(&simple.name, self.source)?;
        let words: Vec<Argument> = simple.args.iter().map(|word| self.argument(word)).collect();
        let texts: Vec<&str> = words.iter().map(Argument::fixed).collect::<Option<_>>()?;
        match &*name {
            "echo" | "printf" => {
                let texts: Vec<&str> =
                    texts.into_iter().skip_while(|text| ["-n", "-e", "-ne", "--"].contains(text)).collect();
                // This does not follow escapes and formats.
                let text = texts.join(if &*name == "echo" { " " } else { "\n" });
                Some(text).filter(|text| !text.contains(['\\', '%']))
            }
            "cat" if texts.is_empty() => {
                let heredoc = statement.redirects.iter().find_map(|one| self.redirect(one));
                match heredoc {
                    Some(Stdin::Text(text)) => Some(text),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn compound(&mut self, compound: &CompoundCommand, stdin: &Stdin) {
        self.judge.note_effect(Effect::Reversible, "");
        match compound {
            CompoundCommand::If(one) => {
                self.statements(&one.condition);
                self.statements_reading(&one.then_branch, stdin);
                for (condition, branch) in &one.elif_branches {
                    self.statements(condition);
                    self.statements_reading(branch, stdin);
                }
                one.else_branch.iter().for_each(|branch| self.statements_reading(branch, stdin));
            }
            CompoundCommand::For(one) => {
                one.words.iter().flatten().for_each(|word| drop(self.argument(word)));
                self.statements_reading(&one.body, stdin);
            }
            CompoundCommand::Repeat(one) => {
                self.argument(&one.count);
                self.statements_reading(&one.body, stdin);
            }
            CompoundCommand::Foreach(one) => {
                one.words.iter().for_each(|word| drop(self.argument(word)));
                self.statements_reading(&one.body, stdin);
            }
            CompoundCommand::Select(one) => {
                one.words.iter().for_each(|word| drop(self.argument(word)));
                self.statements_reading(&one.body, stdin);
            }
            CompoundCommand::ArithmeticFor(one) => {
                let body = one.body.span.slice(self.source);
                let head = one.span.slice(self.source);
                self.plain(head.split_once(body).map_or(head, |(head, _)| head));
                self.statements_reading(&one.body, stdin);
            }
            CompoundCommand::While(one) => {
                self.statements_reading(&one.condition, stdin);
                self.statements_reading(&one.body, stdin);
            }
            CompoundCommand::Until(one) => {
                self.statements_reading(&one.condition, stdin);
                self.statements_reading(&one.body, stdin);
            }
            CompoundCommand::Case(one) => {
                self.argument(&one.word);
                for case in &one.cases {
                    case.patterns.iter().for_each(|pattern| self.plain(pattern.span.slice(self.source)));
                    self.statements_reading(&case.body, stdin);
                }
            }
            CompoundCommand::Subshell(body) | CompoundCommand::BraceGroup(body) => self.statements_reading(body, stdin),
            CompoundCommand::Arithmetic(one) => self.plain(one.span.slice(self.source)),
            CompoundCommand::Conditional(one) => self.plain(one.span.slice(self.source)),
            CompoundCommand::Time(one) => one.command.iter().for_each(|command| self.statement(command, stdin)),
            CompoundCommand::Coproc(one) => self.statement(&one.body, &Stdin::Unseen),
            CompoundCommand::Always(one) => {
                self.statements_reading(&one.body, stdin);
                self.statements_reading(&one.always_body, stdin);
            }
        }
    }

    /// Checks a part without a walk of its words: it must have no commands in it.
    fn plain(&mut self, part: &str) {
        let inside = part.strip_prefix("$((").or_else(|| part.strip_prefix("$[")).unwrap_or(part);
        // A value for evaluation, and the value of a variable with a computed name.
        let lists_keys =
            part.ends_with("[@]}") || part.ends_with("[*]}") || part.ends_with("@}") || part.ends_with("*}");
        let is_evaluated = part.starts_with("${") && part.contains("@P}") || part.starts_with("${!") && !lists_keys;
        if is_evaluated || has_substitution(inside) || inside.contains("<(") || inside.contains(">(") {
            self.judge.note_effect(Effect::Unknown, part);
        }
    }

    fn assignments(&mut self, all: &[Assignment]) -> Vec<(String, Argument)> {
        let mut variables = Vec::new();
        for one in all {
            if let Some(subscript) = &one.target.subscript {
                self.plain(subscript.span().slice(self.source));
            }
            match &one.value {
                AssignmentValue::Scalar(word) => {
                    variables.push((one.target.name.as_str().to_owned(), self.argument(word)));
                }
                AssignmentValue::Compound(array) => {
                    for element in &array.elements {
                        match element {
                            ArrayElem::Sequential(value) => {
                                variables.push((one.target.name.as_str().to_owned(), self.argument(&value.word)));
                            }
                            _ => self.plain(array.span.slice(self.source)),
                        }
                    }
                }
            }
        }
        variables
    }

    /// Judges what a redirection writes, and returns what it gives to read.
    fn redirect(&mut self, redirect: &Redirect) -> Option<Stdin> {
        match &redirect.target {
            RedirectTarget::Heredoc(heredoc) => {
                let (mut text, mut is_known) = (String::new(), true);
                for (part, span) in heredoc.body.parts_with_spans() {
                    match part {
                        HeredocBodyPart::Literal(literal) => text.push_str(literal.as_str(self.source, span)),
                        HeredocBodyPart::CommandSubstitution { body, .. } => {
                            is_known = false;
                            self.statements(body);
                        }
                        _ => {
                            is_known = false;
                            self.plain(span.slice(self.source));
                        }
                    }
                }
                Some(if is_known { Stdin::Text(text) } else { Stdin::Unseen })
            }
            RedirectTarget::Word(word) => {
                let word = self.argument(word);
                match redirect.kind {
                    RedirectKind::HereString => {
                        Some(word.fixed().map_or(Stdin::Unseen, |text| Stdin::Text(text.to_owned())))
                    }
                    RedirectKind::Input => {
                        Some(if word.fixed() == Some("/dev/null") { Stdin::Text(String::new()) } else { Stdin::Unseen })
                    }
                    RedirectKind::HereDoc | RedirectKind::HereDocStrip | RedirectKind::DupInput => Some(Stdin::Unseen),
                    RedirectKind::DupOutput if word.text.chars().all(|sign| sign.is_ascii_digit() || sign == '-') => {
                        None
                    }
                    RedirectKind::Append
                    | RedirectKind::Output
                    | RedirectKind::Clobber
                    | RedirectKind::ReadWrite
                    | RedirectKind::DupOutput
                    | RedirectKind::OutputBoth => {
                        self.judge.writes(&word);
                        None
                    }
                }
            }
        }
    }

    /// Judges the commands in a word, and returns the word.
    fn argument(&mut self, word: &Word) -> Argument {
        self.parts(&word.parts);
        if let Some(text) = static_command_name_text(word, self.source) {
            let is_fixed = !word.has_active_brace_expansion() && !has_mark(&text) && !self.has_escapes(&word.parts);
            return Argument { is_fixed: is_fixed && !self.has_glob(&word.parts), text: text.into_owned() };
        }
        let mut text = String::new();
        let is_fixed = self.known_text(&word.parts, &mut text) && !has_mark(&text) && !self.has_glob(&word.parts);
        if !is_fixed {
            text = word.span.slice(self.source).to_owned();
        }
        Argument { text, is_fixed }
    }

    /// Writes the text of a word with known variables only: the home directory and the working directory.
    fn known_text(&self, parts: &[WordPartNode], text: &mut String) -> bool {
        parts.iter().all(|part| match &part.kind {
            WordPart::Literal(literal) => {
                text.push_str(literal.as_str(self.source, part.span));
                true
            }
            WordPart::SingleQuoted { value, dollar: false } => {
                text.push_str(value.slice(self.source));
                true
            }
            WordPart::DoubleQuoted { parts, .. } => self.known_text(parts, text),
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
    fn parts(&mut self, parts: &[WordPartNode]) {
        for part in parts {
            match &part.kind {
                WordPart::Literal(_) | WordPart::SingleQuoted { .. } | WordPart::Variable(_) => {}
                WordPart::DoubleQuoted { parts, .. } => self.parts(parts),
                WordPart::CommandSubstitution { body, .. } | WordPart::ProcessSubstitution { body, .. } => {
                    self.statements(body);
                }
                // A text that is no arithmetic may be a command in a command.
                WordPart::ArithmeticExpansion { expression_ast: None, .. } => {
                    self.judge.note_effect(Effect::Unknown, part.span.slice(self.source));
                }
                _ => self.plain(part.span.slice(self.source)),
            }
        }
    }

    /// Returns whether a word has quotes with escapes of C, which this does not follow.
    fn has_escapes(&self, parts: &[WordPartNode]) -> bool {
        parts.iter().any(|part| match &part.kind {
            WordPart::SingleQuoted { dollar: true, .. } => part.span.slice(self.source).contains('\\'),
            WordPart::DoubleQuoted { parts, .. } => self.has_escapes(parts),
            _ => false,
        })
    }

    /// Returns whether names of files replace a word.
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

/// Returns whether a text has a command in it, where a shell evaluates it.
pub(super) fn has_substitution(text: &str) -> bool {
    text.contains('`') || text.contains("$(")
}

/// Returns whether a text has a mark in place of a variable of a machine.
fn has_mark(text: &str) -> bool {
    text.contains(super::MARK)
}
