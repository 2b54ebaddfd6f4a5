//! Handling of events: changes of the full screen's state, and the effects to perform.
//!
//! Pure: the same state, time and event give the same result.

use std::time::Duration;

use ratatui::layout::Position;
use steplatch_protocol::{
    AnswerGate, AnswerGateReply, EnterSecret, GateInfo, Passphrase, RerunRequest, RunRecord, RunReply,
};

use super::event::{Effect, UiEvent, refusal_text};
use super::gate_view::{ANSWER_DELAY, AnswerStep, GateView};
use super::key::{Key, MouseAction, TerminalInput};
use super::layout::{ListLayout, RunLayout};
use super::line_input::{Edit, LineInput};
use super::model::{
    Confirmation, DaemonState, ListLine, Model, Notice, Opened, Row, RowId, Section, Typing, asks_for_secret, lines,
};
use super::picture::Picture;
use super::steps::Step;
use crate::commands::gates::answer_text;
use crate::print;
use crate::run_changes::has_ended;

/// Number of lines that a key scrolls in the input and output of a step.
const PAGE_LINES: usize = 10;

/// Number of lines that a step of the wheel scrolls.
const WHEEL_LINES: usize = 3;

/// Handles an event. `elapsed` is the time since the start, `now` the time of day (ISO 8601, UTC).
pub(crate) fn update(model: &mut Model, elapsed: Duration, now: String, event: UiEvent) -> Vec<Effect> {
    (model.elapsed, model.now) = (elapsed, now);
    let effects = match event {
        UiEvent::Input(input) => handle_input(model, &input),
        UiEvent::Resized { cols, rows } => {
            (model.cols, model.rows) = (cols, rows);
            vec![Effect::Redraw]
        }
        UiEvent::Tick => Vec::new(),
        UiEvent::DaemonAway => {
            if model.daemon != DaemonState::Away {
                model.daemon = DaemonState::Away;
                model.picture = None;
                set_notice(model, Err("the daemon exited; waiting for the next one (s starts it)".to_owned()));
            }
            Vec::new()
        }
        UiEvent::Lists { terminals, runs, needs_passphrase } => {
            if model.daemon == DaemonState::Away {
                set_notice(model, Ok("the daemon is back".to_owned()));
            }
            model.daemon = DaemonState::Connected;
            (model.terminals, model.runs, model.needs_passphrase) = (terminals, runs, needs_passphrase);
            model.sort_runs();
            let mut effects = check_opened_gate(model);
            effects.extend(open_requested(model));
            effects
        }
        UiEvent::Terminals(terminals) => {
            model.terminals = terminals;
            Vec::new()
        }
        UiEvent::Run(run) => {
            model.put_run(*run);
            check_opened_gate(model)
        }
        UiEvent::RunRemoved(id) => {
            model.runs.retain(|run| run.run_id != id);
            check_opened_gate(model)
        }
        UiEvent::Screen { terminal, change } => {
            if model.picture.as_ref().is_none_or(|picture| picture.terminal != terminal) {
                model.picture = Some(Picture::for_terminal(&terminal));
            }
            if let Some(picture) = &mut model.picture {
                picture.apply(*change);
            }
            Vec::new()
        }
        UiEvent::ScreenClosed(terminal) => {
            model.picture = model.picture.take().filter(|picture| picture.terminal != terminal);
            Vec::new()
        }
        UiEvent::RunEvent { opening, event } => {
            for opened in &mut model.opened {
                if let Opened::Run(view) = opened
                    && view.opening == opening
                {
                    view.steps.record(&event);
                }
            }
            Vec::new()
        }
        UiEvent::Gate { gate_id, gate } => {
            show_gate(model, &gate_id, gate.map(|gate| *gate));
            Vec::new()
        }
        UiEvent::Answered { answer, reply } => handle_reply(model, *answer, reply.map(|reply| *reply)),
        UiEvent::AnswerDelayed(seconds) => {
            if let Some(Opened::Gate(view)) = model.opened.last_mut() {
                view.remark = Some(crate::passphrase::pause_message(seconds));
            }
            Vec::new()
        }
        UiEvent::RanAgain { request, reply } => handle_rerun(model, *request, reply.map(|reply| *reply)),
        UiEvent::Done(result) => {
            set_notice(model, result);
            Vec::new()
        }
        UiEvent::Detached(result) => {
            set_notice(model, result);
            vec![Effect::Redraw]
        }
    };
    keep_selection_visible(model);
    effects
}

/// Moves the selection to an existing row and scrolls to it.
fn keep_selection_visible(model: &mut Model) {
    let list = model.list();
    let selected = model.selected_index(&list);
    model.selected = list.get(selected).map(|row| row.id.clone());
    let height = usize::from(ListLayout::for_size(model.cols, model.rows).list.height).max(1);
    let lines = lines(&list);
    let line = lines.iter().position(|line| *line == ListLine::Row(selected)).unwrap_or(0);
    // Together with the first row of a section, show the heading.
    let first = if line > 0 && matches!(lines[line - 1], ListLine::Heading(..)) { line - 1 } else { line };
    let first = if selected == 0 { 0 } else { first };
    model.top = model.top.min(first).max((line + 1).saturating_sub(height)).min(lines.len().saturating_sub(height));
    if model
        .picture
        .as_ref()
        .is_some_and(|picture| model.selected.as_ref().is_none_or(|row| row.id != picture.terminal))
    {
        model.picture = None;
    }
    let (cols, rows) = (model.cols, model.rows);
    if let Some(Opened::Gate(view)) = model.opened.last_mut() {
        scroll_gate(view, cols, rows, 0);
    }
}

fn set_notice(model: &mut Model, result: Result<String, String>) {
    let is_error = result.is_err();
    let (Ok(text) | Err(text)) = result;
    model.notice = Some(Notice { text: print::visible(&text), is_error });
}

/// Ignores input until [`ANSWER_DELAY`] passes without a key, because the person may type a line for a closed question.
fn ignore_typed_line(model: &mut Model) {
    model.quiet_until = model.elapsed + ANSWER_DELAY;
}

fn handle_input(model: &mut Model, input: &TerminalInput) -> Vec<Effect> {
    if let TerminalInput::Focus(has_focus) = input {
        // The click or key that focuses the window must not answer the question.
        if let (true, Some(Opened::Gate(view))) = (has_focus, model.opened.last_mut()) {
            view.pause_answers(model.elapsed);
        }
        if *has_focus {
            model.focused_at = Some(model.elapsed);
        }
        return Vec::new();
    }
    if let TerminalInput::Mouse { action, col, row } = input {
        return handle_mouse(model, *action, Position { x: *col, y: *row });
    }
    let key = match input {
        TerminalInput::Key(key) => Some(*key),
        _ => None,
    };
    match key {
        Some(Key::Ctrl('l')) => return vec![Effect::Redraw],
        Some(Key::Ctrl('z')) => return vec![Effect::Suspend],
        _ => {}
    }
    if model.shows_help {
        model.shows_help = key.is_none();
        return Vec::new();
    }
    if let Some(confirmation) = model.confirmation.take() {
        return confirm_by_key(model, confirmation, key);
    }
    if model.typing.is_some() {
        return handle_line_input(model, input);
    }
    if is_typed(input) && model.is_quiet() {
        ignore_typed_line(model);
        return Vec::new();
    }
    model.notice = None;
    let is_command = !matches!(model.opened.last(), Some(Opened::Gate(_)));
    if is_command && (is_for_program(input) || key.is_some_and(|key| model.continues_text(key))) {
        // Also ignore the further characters of the line.
        ignore_typed_line(model);
        set_notice(
            model,
            Ok("keys are commands here (? shows them); enter attaches to a terminal, to type".to_owned()),
        );
        return Vec::new();
    }
    if let (true, Some(Key::Char(letter))) = (is_command, key)
        && letter.is_ascii_alphabetic()
    {
        model.last_letter = Some((model.elapsed, letter));
    }
    match model.opened.last() {
        Some(Opened::Gate(_)) => handle_gate_input(model, input, key),
        Some(Opened::Run(_)) => key.map(|key| handle_run_key(model, key)).unwrap_or_default(),
        None => key.map(|key| handle_list_key(model, key)).unwrap_or_default(),
    }
}

/// Handles the mouse: a click selects a row of the list, a click on the selected row opens it, and the wheel scrolls. A
/// click confirms nothing and answers nothing.
fn handle_mouse(model: &mut Model, action: MouseAction, position: Position) -> Vec<Effect> {
    if model.shows_help || model.confirmation.is_some() || model.typing.is_some() || model.was_just_focused() {
        return Vec::new();
    }
    let (cols, rows) = (model.cols, model.rows);
    let wheel_lines = match action {
        MouseAction::Press => None,
        MouseAction::WheelUp => Some(-(WHEEL_LINES as isize)),
        MouseAction::WheelDown => Some(WHEEL_LINES as isize),
    };
    match (model.opened.last_mut(), wheel_lines) {
        (Some(Opened::Gate(view)), Some(lines)) => scroll_gate(view, cols, rows, lines),
        (Some(Opened::Run(view)), Some(lines)) => {
            let layout = RunLayout::for_size(cols, rows, false);
            if layout.step.contains(position) {
                view.scroll = view.scroll.saturating_add_signed(lines);
            } else {
                return handle_run_key(model, if lines < 0 { Key::Up } else { Key::Down });
            }
        }
        (Some(_), None) => {}
        (None, Some(lines)) => return handle_list_key(model, if lines < 0 { Key::Up } else { Key::Down }),
        (None, None) => return click_row(model, position),
    }
    Vec::new()
}

/// Selects the row of the list at a position, or opens it if it is selected.
fn click_row(model: &mut Model, position: Position) -> Vec<Effect> {
    let area = ListLayout::for_size(model.cols, model.rows).list;
    if !area.contains(position) {
        return Vec::new();
    }
    let list = model.list();
    let clicked = match lines(&list).get(model.top + usize::from(position.y - area.y)) {
        Some(ListLine::Row(index)) => list.get(*index).map(|row| row.id.clone()),
        _ => None,
    };
    let Some(clicked) = clicked else { return Vec::new() };
    model.notice = None;
    if model.selected.as_ref() == Some(&clicked) && !model.is_quiet() {
        return open_row(model, &clicked);
    }
    model.selected = Some(clicked);
    Vec::new()
}

/// Copies the id of a row.
fn copy_id(model: &mut Model, id: &str) -> Vec<Effect> {
    set_notice(model, Ok(format!("copied {id}, if this terminal permits it")));
    vec![Effect::Copy(id.to_owned())]
}

/// Handles input to the filter, or to the beginning of an id.
fn handle_line_input(model: &mut Model, input: &TerminalInput) -> Vec<Effect> {
    match model.typing.take() {
        Some(Typing::Filter) => {
            match (input, model.filter.apply(input)) {
                // These keys move the selection while the filter is being typed.
                (TerminalInput::Key(key @ (Key::Up | Key::Down | Key::PageUp | Key::PageDown)), _) => {
                    model.typing = Some(Typing::Filter);
                    return handle_list_key(model, *key);
                }
                (_, Edit::Entered) => return Vec::new(),
                (_, Edit::Cancelled) => {
                    model.filter = LineInput::default();
                    return Vec::new();
                }
                (_, Edit::Changed) => model.selected = None,
                (_, Edit::Ignored) => {}
            }
            model.typing = Some(Typing::Filter);
        }
        Some(Typing::GoTo(mut line)) => match line.apply(input) {
            Edit::Cancelled => {}
            Edit::Entered => return go_to(model, line.text().trim()),
            Edit::Changed | Edit::Ignored => model.typing = Some(Typing::GoTo(line)),
        },
        Some(Typing::Secret { terminal, program, mut line }) => match line.apply(input) {
            Edit::Cancelled => set_notice(model, Ok("nothing was typed".to_owned())),
            Edit::Entered => {
                let secret = Some(Passphrase(line.text().to_owned()));
                let verb = EnterSecret { session_id: terminal, secret, program: Some(program), reason: None };
                return vec![Effect::EnterSecret(Box::new(verb))];
            }
            Edit::Changed | Edit::Ignored => model.typing = Some(Typing::Secret { terminal, program, line }),
        },
        None => {}
    }
    Vec::new()
}

/// Handles a key while the list is shown.
fn handle_list_key(model: &mut Model, key: Key) -> Vec<Effect> {
    let list = model.list();
    let selected = model.selected_index(&list);
    let page = usize::from(ListLayout::for_size(model.cols, model.rows).list.height).saturating_sub(1).max(1);
    let last = list.len().saturating_sub(1);
    let row = list.get(selected);
    let target = match key {
        Key::Up | Key::Char('k') => selected.saturating_sub(1),
        Key::Down | Key::Char('j') => (selected + 1).min(last),
        Key::PageUp | Key::Ctrl('b') => selected.saturating_sub(page),
        Key::PageDown | Key::Ctrl('f') | Key::Char(' ') => (selected + page).min(last),
        Key::Home => 0,
        Key::End | Key::Char('G') => last,
        Key::Tab => other_section(&list, selected, true),
        Key::BackTab => other_section(&list, selected, false),
        _ => return handle_row_key(model, key, row.cloned().as_ref()),
    };
    model.selected = list.get(target).map(|row| row.id.clone());
    Vec::new()
}

/// Returns the first row of the next section with rows, or of the previous one.
fn other_section(list: &[Row], selected: usize, is_next: bool) -> usize {
    let section_starts: Vec<usize> =
        (0..list.len()).filter(|row| *row == 0 || list[*row].id.section != list[*row - 1].id.section).collect();
    let current = section_starts.iter().rposition(|first| *first <= selected).unwrap_or(0);
    let count = section_starts.len().max(1);
    let target = if is_next { current + 1 } else { current + count - 1 } % count;
    section_starts.get(target).copied().unwrap_or(0)
}

/// Handles a command key. The command may refer to the selected row.
fn handle_row_key(model: &mut Model, key: Key, row: Option<&Row>) -> Vec<Effect> {
    match key {
        Key::Char('q') | Key::Ctrl('c' | 'd') => return vec![Effect::Leave],
        Key::Char('?') => model.shows_help = true,
        Key::Char('/') => model.typing = Some(Typing::Filter),
        Key::Char('g') => model.typing = Some(Typing::GoTo(LineInput::default())),
        Key::Char('s') if model.daemon == DaemonState::Away => return vec![Effect::StartDaemon],
        Key::Ctrl('y') => return row.map(|row| copy_id(model, &row.id.id)).unwrap_or_default(),
        Key::Escape => model.filter = LineInput::default(),
        Key::Enter | Key::Right => {
            return row.map(|row| open_row(model, &row.id)).unwrap_or_default();
        }
        Key::Char('t') => {
            if let Some(terminal) = row.and_then(|row| model.terminal_of(&row.id)) {
                let terminal = terminal.session_id.clone();
                let question = format!(
                    "Take over {}? Nothing else can type there until you leave",
                    terminal_name(model, &terminal)
                );
                return confirm(model, question, &CONFIRMING_KEYS, Effect::Attach { terminal, hold: true });
            }
        }
        Key::Char('a') => {
            let gate = row.and_then(|row| match row.id.section {
                Section::Gates => Some(row.id.id.clone()),
                Section::Runs => model.run(&row.id.id)?.pending_gates.first().map(|gate| gate.gate_id.clone()),
                Section::Terminals => None,
            });
            if let Some(gate) = gate {
                return open_row(model, &RowId { section: Section::Gates, id: gate });
            }
        }
        Key::Char('r') => match row {
            Some(row) if row.id.section == Section::Runs => return run_again(model, &row.id.id, None),
            Some(row) if row.id.section == Section::Gates => return refuse_secret(model, &row.id.id),
            _ => {}
        },
        Key::Char('c' | 'p') => {
            if let Some(row) = row.filter(|row| row.id.section != Section::Terminals) {
                // The id of a gate begins with the id of its run.
                let run = row.id.id.split('/').next().unwrap_or_default().to_owned();
                return control_run(model, key, &run);
            }
        }
        _ => {}
    }
    Vec::new()
}

/// Pauses, resumes or cancels a run.
fn control_run(model: &mut Model, key: Key, run_id: &str) -> Vec<Effect> {
    let Some(run) = model.run(run_id) else { return Vec::new() };
    let name = format!("{} {}", print::visible(&run.workflow_id), run.run_id);
    if has_ended(run) {
        set_notice(model, Err(format!("{name} has ended")));
        return Vec::new();
    }
    let run_id = run_id.to_owned();
    match (key, run.paused.is_some()) {
        (Key::Char('p'), true) => confirm(model, format!("Resume {name}?"), &CONFIRMING_KEYS, Effect::Resume(run_id)),
        (Key::Char('p'), false) => confirm(model, format!("Pause {name}?"), &CONFIRMING_KEYS, Effect::Pause(run_id)),
        _ => {
            let question = format!("Cancel {name}? Its work is abandoned and its terminals are closed");
            confirm(model, question, &IRREVERSIBLE_KEYS, Effect::Cancel(run_id))
        }
    }
}

/// Asks to run an ended run again: as a whole, or from a state (`NAME/VISIT`) with the results recorded before it.
fn run_again(model: &mut Model, run_id: &str, from_state: Option<String>) -> Vec<Effect> {
    let Some(run) = model.run(run_id) else { return Vec::new() };
    let name = format!("{} {}", print::visible(&run.workflow_id), run.run_id);
    if !has_ended(run) {
        set_notice(model, Err(format!("{name} has not ended; c cancels it")));
        return Vec::new();
    }
    let question = match &from_state {
        Some(state) => {
            format!("Run {name} again from '{}'?", print::visible(state.strip_suffix("/1").unwrap_or(state)))
        }
        None => format!("Run {name} again, with its input?"),
    };
    let request = RerunRequest { run_id: run.run_id.clone(), from_state, repeat_irreversible: false };
    confirm(model, question, &CONFIRMING_KEYS, Effect::RunAgain(Box::new(request)))
}

/// Handles the reply to a request to run an ended run again. If the earlier run is still shown, opens the new run, or
/// asks for the confirmation of irreversible actions.
fn handle_rerun(model: &mut Model, mut request: RerunRequest, reply: Result<RunReply, String>) -> Vec<Effect> {
    let is_idle = model.confirmation.is_none() && model.typing.is_none() && !model.is_quiet();
    let shows_run = is_idle
        && match model.opened.last() {
            Some(Opened::Run(view)) => view.run_id == request.run_id,
            Some(Opened::Gate(_)) => false,
            None => model.selected.as_ref().is_some_and(|row| row.id == request.run_id),
        };
    match reply {
        Ok(reply) if !reply.run_id.is_empty() => {
            set_notice(model, Ok(format!("{} runs {} again", reply.run_id, request.run_id)));
            if shows_run {
                model.open_run(reply.run_id);
            }
        }
        Ok(reply) if shows_run && !reply.irreversible.is_empty() => {
            let question = format!("Repeat it? {}", print::visible(&reply.irreversible.join("; ")));
            request.repeat_irreversible = true;
            return confirm(model, question, &IRREVERSIBLE_KEYS, Effect::RunAgain(Box::new(request)));
        }
        Ok(reply) => set_notice(model, Err(refusal_text(reply.error))),
        Err(error) => set_notice(model, Err(error)),
    }
    Vec::new()
}

/// Asks to refuse the request of an agent for a password.
fn refuse_secret(model: &mut Model, terminal: &str) -> Vec<Effect> {
    let Some(request) = model.terminal(terminal).and_then(|session| session.secret_request.as_ref()) else {
        return Vec::new();
    };
    let who = print::visible(request.requested_by.as_deref().unwrap_or("an agent"));
    let question = format!("Refuse the password for {}? {who} is notified", terminal_name(model, terminal));
    let verb = EnterSecret { session_id: terminal.to_owned(), ..EnterSecret::default() };
    confirm(model, question, &CONFIRMING_KEYS, Effect::EnterSecret(Box::new(verb)))
}

/// Begins the line of a password for a terminal. Returns whether its program reads one.
fn begin_secret(model: &mut Model, terminal: &str) -> bool {
    let program = model.terminal(terminal).filter(|session| asks_for_secret(session));
    let Some(program) = program.map(|session| session.password_program.clone()) else { return false };
    match program {
        Some(program) => {
            let terminal = terminal.to_owned();
            model.typing = Some(Typing::Secret { terminal, program, line: LineInput::default() });
        }
        None => set_notice(model, Err("no program in this terminal reads a hidden line now".to_owned())),
    }
    true
}

/// Returns the name of a terminal, or the id if it has no name.
fn terminal_name(model: &Model, terminal: &str) -> String {
    let name = model.terminal(terminal).and_then(|session| session.name.as_deref());
    print::visible(name.unwrap_or(terminal))
}

/// Opens the item of a row.
fn open_row(model: &mut Model, row: &RowId) -> Vec<Effect> {
    match row.section {
        Section::Terminals => return vec![Effect::Attach { terminal: row.id.clone(), hold: false }],
        Section::Runs => {
            model.open_run(row.id.clone());
        }
        Section::Gates => match model.gate(&row.id).map(|(run, gate)| (run.workflow_id.clone(), gate.clone())) {
            Some((workflow, gate)) => {
                let effect = Effect::ShowGate { run_id: gate.run_id.clone(), gate_id: gate.gate_id.clone() };
                let is_complete = !gate.shortened;
                model.opened.push(Opened::Gate(Box::new(GateView::new(gate, workflow, model.elapsed))));
                // The list may contain a shortened text: request the complete one.
                return if is_complete { Vec::new() } else { vec![effect] };
            }
            None if begin_secret(model, &row.id) => {}
            None if model.terminal(&row.id).is_some() => {
                return vec![Effect::Attach { terminal: row.id.clone(), hold: false }];
            }
            None => set_notice(model, Err("the run is locked; unlock it with: steplatch approver unlock".to_owned())),
        },
    }
    Vec::new()
}

/// Opens the run or terminal whose id begins with `beginning`, or the terminal with this name.
fn go_to(model: &mut Model, beginning: &str) -> Vec<Effect> {
    if beginning.is_empty() {
        return Vec::new();
    }
    match find_row(model, beginning) {
        Ok(row) => {
            model.filter = LineInput::default();
            model.selected = Some(row.clone());
            open_row(model, &row)
        }
        Err(error) => {
            set_notice(model, Err(error));
            Vec::new()
        }
    }
}

/// Opens the item that the command line names, once the lists are available.
fn open_requested(model: &mut Model) -> Vec<Effect> {
    match model.requested_item.take() {
        Some(beginning) => go_to(model, &beginning),
        None => Vec::new(),
    }
}

fn find_row(model: &Model, beginning: &str) -> Result<RowId, String> {
    let named_terminal = model
        .terminals
        .iter()
        .find(|terminal| terminal.session_id == beginning || terminal.name.as_deref() == Some(beginning));
    if let Some(terminal) = named_terminal {
        return Ok(RowId { section: Section::Terminals, id: terminal.session_id.clone() });
    }
    let has_beginning = |id: &str| {
        let digits = id.split_once('_').map_or(id, |(_, digits)| digits);
        id.starts_with(beginning) || digits.starts_with(beginning)
    };
    let runs = model.runs.iter().map(|run| (Section::Runs, &run.run_id));
    let terminals = model.terminals.iter().map(|terminal| (Section::Terminals, &terminal.session_id));
    let mut matches = runs.chain(terminals).filter(|(_, id)| has_beginning(id));
    match (matches.next(), matches.next()) {
        (Some((section, id)), None) => Ok(RowId { section, id: id.clone() }),
        (None, _) => Err(format!("no run or terminal begins with '{beginning}'")),
        (Some(_), Some(_)) => Err(format!("several runs or terminals begin with '{beginning}'; type more of the id")),
    }
}

/// Handles a key while a run is shown.
fn handle_run_key(model: &mut Model, key: Key) -> Vec<Effect> {
    let Some(Opened::Run(view)) = model.opened.last_mut() else { return Vec::new() };
    let run_id = view.run_id.clone();
    let last = view.steps.steps.len().saturating_sub(1);
    let step = view.step.unwrap_or_else(|| view.steps.most_informative()).min(last);
    let target = match key {
        Key::Up | Key::Char('k') => step.saturating_sub(1),
        Key::Down | Key::Char('j') => (step + 1).min(last),
        Key::Home => 0,
        Key::End | Key::Char('G') => {
            // Follow the last step again.
            (view.step, view.scroll) = (None, 0);
            return Vec::new();
        }
        Key::PageUp => {
            view.scroll = view.scroll.saturating_sub(PAGE_LINES);
            return Vec::new();
        }
        Key::PageDown | Key::Char(' ') => {
            view.scroll += PAGE_LINES;
            return Vec::new();
        }
        Key::Escape | Key::Left | Key::Char('h' | 'q' | 'b') | Key::Ctrl('c') => {
            let has_ended = model.run(&run_id).is_none_or(has_ended);
            model.close();
            model.selected = Some(RowId { section: Section::Runs, id: run_id.clone() });
            if key == Key::Char('b') && !has_ended {
                let short: String = run_id.strip_prefix("run_").unwrap_or(&run_id).chars().take(4).collect();
                set_notice(model, Ok(format!("{run_id} continues in the background; g {short} comes back to it")));
            }
            return Vec::new();
        }
        Key::Char('?') => {
            model.shows_help = true;
            return Vec::new();
        }
        Key::Char('s') if model.daemon == DaemonState::Away => return vec![Effect::StartDaemon],
        Key::Ctrl('y') => return copy_id(model, &run_id),
        Key::Enter | Key::Right => {
            return match view.steps.steps.get(step).and_then(|step| step.child.clone()) {
                Some(child) => open_row(model, &RowId { section: Section::Runs, id: child }),
                None => Vec::new(),
            };
        }
        Key::Char('a') => {
            let gate = model.run(&run_id).and_then(|run| run.pending_gates.first()).map(|gate| gate.gate_id.clone());
            return gate.map(|id| open_row(model, &RowId { section: Section::Gates, id })).unwrap_or_default();
        }
        Key::Char('t') => {
            let Some(terminal) = view.steps.steps.get(step).and_then(step_terminal) else { return Vec::new() };
            let question = format!("Attach to {}, the terminal of this step?", terminal_name(model, &terminal));
            return confirm(model, question, &CONFIRMING_KEYS, Effect::Attach { terminal, hold: false });
        }
        Key::Char('r') => {
            let state = view.steps.steps.get(step).and_then(Step::entered_state);
            return run_again(model, &run_id, state);
        }
        Key::Char('c' | 'p') => return control_run(model, key, &run_id),
        _ => return Vec::new(),
    };
    (view.step, view.scroll) = (Some(target), 0);
    Vec::new()
}

/// Returns the terminal that a step used.
fn step_terminal(step: &Step) -> Option<String> {
    let session_id = |value: &serde_json::Value| Some(value.get("session_id")?.as_str()?.to_owned());
    session_id(&step.output).or_else(|| session_id(&step.input))
}

/// Handles input while a question is shown.
fn handle_gate_input(model: &mut Model, input: &TerminalInput, key: Option<Key>) -> Vec<Effect> {
    let (elapsed, cols, rows) = (model.elapsed, model.cols, model.rows);
    let Some(Opened::Gate(view)) = model.opened.last_mut() else { return Vec::new() };
    // The size may have changed since the last event.
    scroll_gate(view, cols, rows, 0);
    if is_typed(input) {
        // Input after an answer does not belong to the next view.
        if matches!(view.step, AnswerStep::Sent) {
            return Vec::new();
        }
        if matches!(view.step, AnswerStep::Reading) {
            view.extend_pause(elapsed);
        }
    }
    if let AnswerStep::Typing(line) = &mut view.step {
        return match line.apply(input) {
            Edit::Entered => {
                let text = std::mem::take(line);
                let effects = submit_line(view, text.text(), elapsed);
                show_field(view, cols, rows);
                effects
            }
            Edit::Cancelled => {
                view.step = AnswerStep::Reading;
                view.prompt.begin();
                Vec::new()
            }
            Edit::Changed => {
                view.remark = None;
                Vec::new()
            }
            Edit::Ignored => {
                scroll_by_key(view, cols, rows, key);
                Vec::new()
            }
        };
    }
    match key {
        Some(Key::Escape | Key::Left | Key::Char('q' | 'h') | Key::Ctrl('c')) => {
            let id = view.gate().gate_id.clone();
            model.close();
            if model.opened.is_empty() {
                model.selected = Some(RowId { section: Section::Gates, id });
            }
        }
        Some(Key::Char('?')) => model.shows_help = true,
        Some(Key::Char('a')) => match view.refusal(elapsed) {
            Some(reason) => view.remark = Some(format!("no answer is taken now: {reason}")),
            None => {
                view.remark = None;
                view.step = AnswerStep::Typing(LineInput::default());
                show_field(view, cols, rows);
            }
        },
        key => scroll_by_key(view, cols, rows, key),
    }
    Vec::new()
}

/// Keys that are commands in the list or in a run.
const COMMAND_KEYS: &str = "abcgGhjkpqrst/?";

/// Returns whether an input is text for a program instead of a command of the list or of a run.
fn is_for_program(input: &TerminalInput) -> bool {
    match input {
        TerminalInput::Key(Key::Char(character)) => !character.is_whitespace() && !COMMAND_KEYS.contains(*character),
        TerminalInput::Paste(_) => true,
        _ => false,
    }
}

/// Handles a key while an action waits for confirmation. Any other key withdraws the action.
fn confirm_by_key(model: &mut Model, mut confirmation: Confirmation, key: Option<Key>) -> Vec<Effect> {
    let Some(key) = key else {
        model.confirmation = Some(confirmation);
        return Vec::new();
    };
    match confirmation.keys {
        [next_key, remaining @ ..] if key == *next_key && !model.continues_text(key) => {
            if let Key::Char(letter) = key {
                model.last_letter = Some((model.elapsed, letter));
            }
            if remaining.is_empty() {
                return vec![confirmation.effect];
            }
            confirmation.keys = remaining;
            model.confirmation = Some(confirmation);
        }
        _ => {
            set_notice(model, Ok("nothing was done".to_owned()));
            if matches!(key, Key::Enter | Key::Char(_)) {
                ignore_typed_line(model);
            }
        }
    }
    Vec::new()
}

/// Keys that confirm an action.
const CONFIRMING_KEYS: [Key; 1] = [Key::Enter];

/// Keys that confirm a cancellation or the repetition of an irreversible action.
const IRREVERSIBLE_KEYS: [Key; 2] = [Key::Char('y'), Key::Enter];

/// Asks for the confirmation of an effect with these keys.
fn confirm(model: &mut Model, question: String, keys: &'static [Key], effect: Effect) -> Vec<Effect> {
    model.confirmation = Some(Confirmation { question, keys, effect });
    Vec::new()
}

/// Returns whether an input may belong to a typed line. A space does not count, because it scrolls.
fn is_typed(input: &TerminalInput) -> bool {
    match input {
        TerminalInput::Key(key) => matches!(key, Key::Enter | Key::Char('!'..)),
        TerminalInput::Paste(_) => true,
        _ => false,
    }
}

/// Scrolls to the field that is being typed.
fn show_field(view: &mut GateView, cols: u16, rows: u16) {
    let area = view.layout(cols, rows).question;
    if matches!(view.step, AnswerStep::Typing(_)) && !area.is_empty() {
        view.show_field(usize::from(area.width), usize::from(area.height));
    }
}

fn scroll_by_key(view: &mut GateView, cols: u16, rows: u16, key: Option<Key>) {
    // A page is one line shorter than the area, so that pages overlap.
    let page = isize::try_from(view.layout(cols, rows).question.height.saturating_sub(1).max(1)).unwrap_or(1);
    let lines = match key {
        Some(Key::Up | Key::Char('k')) => -1,
        Some(Key::Down | Key::Char('j')) => 1,
        Some(Key::PageUp) => -page,
        Some(Key::PageDown | Key::Char(' ')) => page,
        Some(Key::Home) => isize::MIN,
        Some(Key::End | Key::Char('G')) => isize::MAX,
        _ => return,
    };
    scroll_gate(view, cols, rows, lines);
}

/// Scrolls a question and records whether the screen is too small and whether the end was visible.
fn scroll_gate(view: &mut GateView, cols: u16, rows: u16, lines: isize) {
    let layout = view.layout(cols, rows);
    view.is_cramped = layout.is_cramped;
    if !layout.is_cramped {
        view.scroll_by(lines, usize::from(layout.question.width), usize::from(layout.question.height));
    }
}

/// Adds a line to the answer of a question.
fn submit_line(view: &mut GateView, line: &str, elapsed: Duration) -> Vec<Effect> {
    if let Some(reason) = view.refusal(elapsed) {
        view.remark = Some(format!("no answer is taken now: {reason}"));
        return Vec::new();
    }
    match view.prompt.line(line) {
        Ok(Some(answer)) => {
            view.step = AnswerStep::Sent;
            view.remark = None;
            vec![Effect::Answer(Box::new(answer))]
        }
        Ok(None) => {
            view.remark = None;
            Vec::new()
        }
        Err(problem) => {
            view.remark = Some(problem);
            Vec::new()
        }
    }
}

/// Handles the reply to an answer.
fn handle_reply(model: &mut Model, answer: AnswerGate, reply: Result<AnswerGateReply, String>) -> Vec<Effect> {
    let Some(Opened::Gate(view)) = model.opened.last_mut() else { return Vec::new() };
    let summary = answer_text(Some(view.gate()), &answer);
    if answer.gate_id.as_ref() != Some(&view.gate().gate_id) {
        return Vec::new();
    }
    match reply {
        Ok(reply) if reply.success => {
            let run = view.gate().run_id.clone();
            model.close();
            ignore_typed_line(model);
            set_notice(model, Ok(format!("answered: {summary}; {run} is now {}", reply.status)));
            Vec::new()
        }
        Ok(reply) => {
            view.remark = view.prompt.handle_rejection(answer, &reply);
            if view.prompt.is_secret() {
                view.step = AnswerStep::Typing(LineInput::default());
                return Vec::new();
            }
            view.step = AnswerStep::Reading;
            view.pause_answers(model.elapsed);
            let GateInfo { run_id, gate_id, .. } = view.gate().clone();
            // The question may have changed, or may have been answered elsewhere.
            vec![Effect::ShowGate { run_id, gate_id }]
        }
        Err(error) => {
            view.step = AnswerStep::Reading;
            view.pause_answers(model.elapsed);
            view.prompt.begin();
            view.remark = Some(error);
            Vec::new()
        }
    }
}

/// Shows the complete question of the opened gate.
fn show_gate(model: &mut Model, gate_id: &str, gate: Result<GateInfo, String>) {
    let elapsed = model.elapsed;
    let Some(Opened::Gate(view)) = model.opened.last_mut() else { return };
    if view.gate().gate_id != gate_id {
        return;
    }
    let was_typing = matches!(view.step, AnswerStep::Typing(_));
    match gate {
        Ok(gate) if gate.digest == view.gate().digest && !view.gate().shortened => {}
        // The question is the same and now complete.
        Ok(gate) if gate.digest == view.gate().digest => {
            let workflow = std::mem::take(&mut view.workflow);
            **view = GateView::new(gate, workflow, elapsed);
        }
        Ok(gate) => view.replace(gate, elapsed),
        Err(reason) => {
            view.step = AnswerStep::Closed;
            view.remark = Some(reason);
        }
    }
    if was_typing && !matches!(view.step, AnswerStep::Typing(_)) {
        ignore_typed_line(model);
    }
}

/// Checks that the opened question is unchanged and still open.
fn check_opened_gate(model: &mut Model) -> Vec<Effect> {
    let Some(Opened::Gate(view)) = model.opened.last() else { return Vec::new() };
    let gate = view.gate();
    let (run_id, gate_id, digest) = (gate.run_id.clone(), gate.gate_id.clone(), gate.digest.clone());
    let is_sent = matches!(view.step, AnswerStep::Sent);
    let run_is_known = model.runs.iter().any(|run: &RunRecord| run.run_id == run_id);
    let current_digest = model.gate(&gate_id).map(|(_, gate)| gate.digest.clone());
    match current_digest {
        Some(current) if current == digest => Vec::new(),
        Some(_) => vec![Effect::ShowGate { run_id, gate_id }],
        // The reply to the answer will report the result.
        None if is_sent || !run_is_known => Vec::new(),
        None => {
            if let Some(Opened::Gate(view)) = model.opened.last_mut() {
                let was_typing = matches!(view.step, AnswerStep::Typing(_));
                view.step = AnswerStep::Closed;
                view.remark = Some("the question was answered or withdrawn; esc goes back".to_owned());
                if was_typing {
                    ignore_typed_line(model);
                }
            }
            Vec::new()
        }
    }
}
