//! Honest answers as JSON, the base of lies.

use serde_json::{Value, json};
use steplatch_files::FileRequest;
use steplatch_host::TerminalRequest;
use steplatch_ids::TerminalId;

/// Returns an answer with another value at this place (RFC 6901).
#[must_use]
pub fn with(mut answer: Value, pointer: &str, value: impl Into<Value>) -> Value {
    *answer.pointer_mut(pointer).unwrap_or_else(|| panic!("the answer has no {pointer}")) = value.into();
    answer
}

/// The greeting of a host.
#[must_use]
pub fn hello() -> Value {
    json!({"wire": 1, "version": "9.9.9", "pid": 4242, "secrets": [], "terminals": 0})
}

/// An opened terminal.
#[must_use]
pub fn opened(id: &TerminalId) -> Value {
    json!({"id": id, "pid": 4243, "integrated": false})
}

/// The description of a terminal.
#[must_use]
pub fn description(id: &TerminalId) -> Value {
    let time = json!({"secs_since_epoch": 1_700_000_000_u64, "nanos_since_epoch": 0});
    json!({
        "id": id, "command": "bash", "name": null, "opened_by": null, "created": time, "last_activity": time, "pid": 4243,
        "title": "", "size": {"cols": 80, "rows": 24}, "busy": null, "exit_code": null, "exit": null, "viewers": 0,
        "holder": null, "cwd": "/", "awaiting_input": null, "password": false
    })
}

/// A view of a terminal.
#[must_use]
pub fn view() -> Value {
    json!({
        "screen": "$ ", "cursor": {"row": 0, "col": 2, "visible": true},
        "modes": {"application_cursor": false, "bracketed_paste": false, "alternate_screen": false}, "title": "",
        "size": {"cols": 80, "rows": 24}, "busy": null, "exit_code": null, "exit": null, "end": 2, "handed_back": false,
        "cwd": "/", "awaiting_input": null, "password": false
    })
}

/// A picture of two rows.
#[must_use]
pub fn picture() -> Value {
    let style = json!({"fg": "Default", "bg": "Default", "bold": false, "dim": false, "italic": false, "underline": "None",
        "underline_colour": null, "strike": false, "inverse": false, "hidden": false});
    let run = |col: u16| json!({"col": col, "cols": 2, "wide": false, "text": "ab", "style": style});
    json!({
        "cols": 80, "rows": [[run(0), run(4)], []],
        "cursor": {"row": 0, "col": 2, "wide": false, "shape": "Block", "colour": null},
        "foreground": [229, 229, 229], "background": [0, 0, 0], "palette": []
    })
}

/// A whole screen for a viewer.
#[must_use]
pub fn delta() -> Value {
    json!({
        "update": {"version": 1, "picture": picture(), "modes": view()["modes"], "title": "", "exit": null},
        "height": 2, "rows": null
    })
}

/// The result of a wait, with a match.
#[must_use]
pub fn waited() -> Value {
    let found = json!({"pattern": 0, "text": "ab", "groups": [], "range": {"start": 0, "end": 2}, "in_echo": false});
    json!({"reason": "Match", "found": found, "offset": 2, "exit": null, "gave_up": null, "missed_before": null,
        "replaced_by": null})
}

/// The outcome of a command.
#[must_use]
pub fn command() -> Value {
    json!({"output": "ok\n", "tail": null, "left_out": 0, "next": 3, "dropped_before": null, "exit_code": 0,
        "timed_out": false, "ended": null, "replaced_by": null, "offset": 0, "end": 3})
}

/// A part of the output.
#[must_use]
pub fn excerpt() -> Value {
    json!({"head": "$ ", "tail": null, "left_out": 0, "next": 2, "dropped_before": null})
}

/// An entry of the log of inputs.
#[must_use]
pub fn input() -> Value {
    json!({"number": 1, "at": {"secs_since_epoch": 1_700_000_000_u64, "nanos_since_epoch": 0}, "by": null, "offset": 0,
        "context": "Prompt", "action": {"Typed": {"text": {"text": "ls"}, "keys": []}}})
}

/// The description of a file of three bytes.
#[must_use]
pub fn file() -> Value {
    json!({"path": "/srv/a", "kind": "File", "size": 3, "mode": 0o644, "modified": null,
        "identity": {"device": 1, "inode": 2}})
}

/// Returns the step of a request for a terminal.
pub(crate) fn requested_step(request: &impl serde::Serialize) -> Option<String> {
    Some(serde_json::to_value(request).ok()?["step"].as_str()?.to_owned())
}

pub(crate) fn terminal_answer(id: &TerminalId, request: &TerminalRequest) -> Option<Value> {
    Some(match request {
        TerminalRequest::Send(_) => json!({"Ok": {"offset": 0, "view": view()}}),
        TerminalRequest::Wait(_) => json!({"Ok": [waited(), view()]}),
        TerminalRequest::Ready(..) | TerminalRequest::View(_) => view(),
        TerminalRequest::Picture | TerminalRequest::Scrollback(_) => picture(),
        TerminalRequest::Inputs(_) => json!([input()]),
        TerminalRequest::Recording => json!({"events": [], "is_cut": false}),
        TerminalRequest::Pieces(ranges, _) => json!(vec![""; ranges.len()]),
        TerminalRequest::WatchScreen(None) => delta()["update"].clone(),
        TerminalRequest::WatchRows(None) => delta(),
        TerminalRequest::WatchScreen(Some(_)) | TerminalRequest::WatchRows(Some(_)) => return None,
        TerminalRequest::Read(..) => excerpt(),
        TerminalRequest::Describe => description(id),
        TerminalRequest::Attach => json!({"snapshot": "", "size": {"cols": 80, "rows": 24}}),
        TerminalRequest::Run(_) => json!({"Ok": command()}),
        TerminalRequest::Variables(_) => json!({"Ok": []}),
        TerminalRequest::Hold(..) | TerminalRequest::SetVariables(..) | TerminalRequest::Signal(_) => {
            json!({"Ok": null})
        }
        TerminalRequest::Close(_) | TerminalRequest::CloseOnce(..) => json!({"exit": null, "survivors": []}),
        TerminalRequest::NoteState(_) => json!({"Shell": {"traps": []}}),
        TerminalRequest::CheckState(_) => json!({"Ok": null}),
        TerminalRequest::Resize(_)
        | TerminalRequest::GiveBack(_)
        | TerminalRequest::HandBack(..)
        | TerminalRequest::HandedBack
        | TerminalRequest::Stage(_) => Value::Null,
    })
}

pub(crate) fn file_answer(request: &FileRequest) -> Value {
    match request {
        FileRequest::Describe(_) => json!({"Ok": file()}),
        FileRequest::List(_) => json!({"Ok": []}),
        FileRequest::Read { offset: 0, .. } => json!({"Ok": {"bytes": [97, 98, 99]}}),
        FileRequest::Read { .. } => json!({"Ok": {"bytes": []}}),
        FileRequest::Digest { .. } => json!({"Err": {"NotFound": "/srv/a"}}),
        FileRequest::Finish { target, .. } => json!({"Ok": {
            "path": target.path, "mode": 0o644, "replaced": false, "unchanged": false}}),
        FileRequest::MakeDirectory(_)
        | FileRequest::Write { .. }
        | FileRequest::Written(_)
        | FileRequest::Abandon(_) => {
            json!({"Ok": null})
        }
    }
}
