//! Execution of commands such as `/runs`.

use steplatch_protocol::{CancelWorkflow, GateInfo, GetWorkflowRun, ListGraphs, ListNodes, ListWorkflows};

use super::conversation::Conversation;
use super::line::{self, Kind, Line};
use super::order::{self, Order};
use super::session::State;
use super::{format, help};
use crate::commands::runs;
use crate::failure::Failure;
use crate::print::{self, visible};
use crate::ui::{self, ExitReason};

/// Maximum number of runs that `/runs` lists.
const MAX_RUNS: u32 = 20;

/// States that `/runs` accepts as a filter.
const STATES: [&str; 5] = ["running", "waiting", "completed", "failed", "cancelled"];

/// Minimum length of an abbreviated run id, in bytes. A shorter word is an answer.
const MIN_RUN_ID_PREFIX_LEN: usize = 4;

impl Conversation<'_> {
    /// Executes the command named `word` with the arguments in `rest`.
    pub(super) async fn execute_command(&mut self, word: &str, rest: &str) -> Result<(), Failure> {
        let rest = rest.trim();
        match order::find(word).map_err(Failure::usage)? {
            Order::Help => {
                let lines = help::about(rest).map_err(Failure::usage)?;
                self.screen.print_lines(&lines)?;
            }
            Order::Nodes => self.list_nodes(rest).await?,
            Order::Graphs => self.list_graphs(rest).await?,
            Order::Workflows => self.list_workflows(rest).await?,
            Order::Runs => self.list_runs(rest).await?,
            Order::Gates => self.list_gates().await?,
            Order::Answer => self.answer_by_command(rest).await?,
            Order::Show => self.show_run_or_result(rest).await?,
            Order::Cancel => self.cancel_run_or_call(rest).await?,
            Order::Foreground => self.bring_to_foreground(rest).await?,
            Order::Background => {
                let lines = format::call_rows(self.session.unfinished());
                self.show_list(&lines, "nothing is running; /bg LINE starts a call without waiting for it")?;
            }
            Order::History => {
                let lines = format::call_rows(self.session.entries());
                self.show_list(&lines, "nothing was called yet; see /help")?;
            }
            Order::Target => self.change_target(rest).await?,
            Order::FullScreen => self.open_full_screen(rest).await?,
            Order::Clear if self.screen.is_interactive() => print::clear()?,
            Order::Clear => {}
            Order::Quit => self.is_closed = true,
        }
        Ok(())
    }

    /// Executes `/ui` and `/ui RUN`. The editor does not read in the meantime, because no line is requested.
    async fn open_full_screen(&mut self, what: &str) -> Result<(), Failure> {
        let run = match what {
            "" => None,
            what => Some(
                match self.session.find_by_number(what).map(|number| (number, self.session.entry(number).run.clone())) {
                    Some((_, Some(run))) => run,
                    Some((number, None)) => {
                        return Err(Failure::usage(format!("::{number} is not a run; /runs lists runs")));
                    }
                    None => self.run(what, "/ui").await?,
                },
            ),
        };
        ui::check_terminal()?;
        if let ExitReason::BySignal(_) = Box::pin(ui::show(self.place, run)).await? {
            self.is_closed = true;
        }
        Ok(())
    }

    /// Executes `/target`, `/target @NODE` and `/target off`.
    async fn change_target(&mut self, rest: &str) -> Result<(), Failure> {
        let line = match rest {
            "" => {
                let now = self.session.target().map(|target| visible(&target.to_string()));
                let now = now.map_or_else(
                    || "plain text is sent nowhere; /target @NODE sends it to a node".to_owned(),
                    |now| format!("plain text is sent to {now}; /target off ends that"),
                );
                return Ok(self.screen.print_remark(&now)?);
            }
            "off" => {
                self.session.set_target(None);
                return Ok(self.screen.print_remark("plain text is no longer sent anywhere")?);
            }
            name => line::read(name).map_err(Failure::usage)?,
        };
        let target = match line {
            Line::Call { target, text } if text.is_empty() => target,
            _ => return Err(Failure::usage("after /target comes one name: @NODE, #GRAPH or %WORKFLOW; or off")),
        };
        let catalog = self.work.catalog().await?;
        let target = catalog.resolve_target(&target);
        self.screen.lines.change_words(|words| words.catalog = catalog);
        let target = target.map_err(Failure::usage)?;
        self.screen
            .print_remark(&format!("plain text is sent to {}; /target off ends that", visible(&target.to_string())))?;
        self.session.set_target(Some(target));
        Ok(())
    }

    fn show_list(&mut self, lines: &[String], nothing: &str) -> std::io::Result<()> {
        if lines.is_empty() { self.screen.print_remark(nothing) } else { self.screen.print_lines(lines) }
    }

    async fn list_nodes(&mut self, containing: &str) -> Result<(), Failure> {
        let reply = self.work.daemon().call(ListNodes { containing: text(containing) }).await?;
        if let Some(error) = reply.error {
            return Err(Failure::work(error));
        }
        let rows = reply.nodes.iter().map(|node| {
            vec![format!("@{}", node.id), node.kind.clone(), visible(node.description.as_deref().unwrap_or_default())]
        });
        let lines = format::table(["NODE", "TYPE", "DESCRIPTION"], rows);
        self.show_list(&lines, "no matching node")?;
        self.show_broken(reply.broken.iter().map(|broken| (broken.id.as_deref(), &*broken.file, &*broken.reason)))
    }

    async fn list_graphs(&mut self, containing: &str) -> Result<(), Failure> {
        let reply = self.work.daemon().call(ListGraphs { containing: text(containing) }).await?;
        if let Some(error) = reply.error {
            return Err(Failure::work(error));
        }
        let rows = reply.graphs.iter().map(|graph| {
            let about = visible(graph.description.as_deref().unwrap_or_default());
            vec![format!("#{}", graph.id), visible(&graph.steps.join(", ")), about]
        });
        let lines = format::table(["GRAPH", "STEPS", "DESCRIPTION"], rows);
        self.show_list(&lines, "no matching graph; see /help graphs")?;
        self.show_broken(reply.broken.iter().map(|broken| (broken.id.as_deref(), &*broken.file, &*broken.reason)))
    }

    async fn list_workflows(&mut self, containing: &str) -> Result<(), Failure> {
        let verb = ListWorkflows { containing: text(containing), ..ListWorkflows::default() };
        let reply = self.work.daemon().call(verb).await?;
        if let Some(error) = reply.error {
            return Err(Failure::work(error));
        }
        let rows = reply.workflows.iter().map(|workflow| {
            let runs = format!("{} of {}", workflow.success_count, workflow.run_count);
            let about = visible(workflow.description.as_deref().unwrap_or_default());
            vec![format!("%{}", workflow.name), workflow.status.clone(), runs, about]
        });
        let lines = format::table(["WORKFLOW", "STATUS", "SUCCEEDED", "DESCRIPTION"], rows);
        self.show_list(&lines, "no matching workflow; one from a file is run with %./FILE.json or %./FILE.py")?;
        let more = reply.total.saturating_sub(reply.workflows.len());
        if more > 0 && containing.is_empty() {
            self.screen.print_remark(&format!("and {more} more; /workflows TEXT finds them"))?;
        }
        self.show_broken(reply.broken.iter().map(|broken| (None, &*broken.file, &*broken.reason)))
    }

    fn show_broken<'b>(
        &mut self,
        broken: impl Iterator<Item = (Option<&'b str>, &'b str, &'b str)>,
    ) -> Result<(), Failure> {
        for (name, file, reason) in broken {
            let what = name.map_or_else(|| visible(file), |name| format!("{} in {}", visible(name), visible(file)));
            self.screen.print_remark(&format!("{what} cannot be used: {}", reason.trim_end().replace('\n', "; ")))?;
        }
        Ok(())
    }

    async fn list_runs(&mut self, which: &str) -> Result<(), Failure> {
        let word = text(which);
        let (state, workflow) = match word {
            Some(word) if STATES.contains(&word.as_str()) => (Some(word), None),
            word => (None, word.map(|word| word.trim_start_matches('%').to_owned())),
        };
        let found = runs::list_runs(self.place, workflow, state, MAX_RUNS).await?;
        let ids: Vec<String> = found.iter().map(|run| run.run_id.clone()).collect();
        self.screen.lines.change_words(|words| {
            words.runs.retain(|known| !ids.contains(known));
            words.runs.splice(0..0, ids);
        });
        let lines =
            format::table(["ID", "WORKFLOW", "STATE", "STARTED", "DURATION", "DETAILS"], found.iter().map(runs::row));
        Ok(self.show_list(&lines, "no matching runs; %NAME begins one")?)
    }

    async fn list_gates(&mut self) -> Result<(), Failure> {
        let gates = self.work.questions().await?;
        let lines = format::questions(&gates);
        self.show_list(&lines, "no run waits for an answer")?;
        for (_, gate) in gates {
            let entry = self.session.find_by_run(&gate.run_id);
            self.session.add_question(gate, entry, false);
        }
        Ok(self.show_question()?)
    }

    /// Executes `/answer ANSWER` and `/answer RUN ANSWER`.
    async fn answer_by_command(&mut self, rest: &str) -> Result<(), Failure> {
        if rest.is_empty() {
            return Err(Failure::usage("after /answer comes the answer, or a run and the answer to its question"));
        }
        let gates: Vec<GateInfo> = self.work.questions().await?.into_iter().map(|(_, gate)| gate).collect();
        let (gate, answer) = self.resolve_answer(gates, rest).map_err(Failure::usage)?;
        let (id, entry) = (gate.gate_id.clone(), self.session.find_by_run(&gate.run_id));
        self.session.add_question(gate, entry, true);
        self.answer_question(&id, answer).await
    }

    /// Determines the gate that `/answer` refers to, and the answer.
    fn resolve_answer<'t>(&self, gates: Vec<GateInfo>, rest: &'t str) -> Result<(GateInfo, &'t str), String> {
        let (first, after) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let begins = |gate: &&GateInfo| {
            let without = gate.run_id.strip_prefix("run_").unwrap_or(&gate.run_id);
            let beginning = first.strip_prefix("run_").unwrap_or(first);
            beginning.len() >= MIN_RUN_ID_PREFIX_LEN && without.starts_with(beginning)
        };
        let of_run: Vec<&GateInfo> = gates.iter().filter(begins).collect();
        match (&of_run[..], self.session.current_question(), &gates[..]) {
            ([_, ..], _, _) if after.trim().is_empty() => Err(format!("after /answer {first} comes the answer")),
            ([gate], _, _) => Ok(((*gate).clone(), after.trim())),
            ([_, _, ..], Some(asked), _) if of_run.iter().any(|gate| gate.gate_id == asked.asking.gate().gate_id) => {
                Ok((asked.asking.gate().clone(), after.trim()))
            }
            ([_, _, ..], _, _) => {
                Err(format!("'{first}' waits for several answers; /gates asks them one after the other"))
            }
            ([], Some(asked), _) => Ok((asked.asking.gate().clone(), rest)),
            ([], None, [gate]) => Ok((gate.clone(), rest)),
            ([], None, []) => Err("no run waits for an answer".to_owned()),
            ([], None, _) => {
                Err("several runs wait: name one with /answer RUN ANSWER, or list them with /gates".to_owned())
            }
        }
    }

    async fn show_run_or_result(&mut self, what: &str) -> Result<(), Failure> {
        let numbered = self.session.find_by_number(what);
        if let Some(number) = numbered {
            let entry = self.session.entry(number);
            match (&entry.state, entry.run.clone()) {
                (State::Running, Some(run)) => {
                    let lines = runs::describe(self.place, &run).await?;
                    self.screen.print_lines(&lines)?;
                }
                _ => {
                    let result = self.session.result(number).map_err(Failure::usage)?;
                    let lines = format::result(number, &entry.target, result);
                    self.screen.print_lines(&lines)?;
                }
            }
            return Ok(());
        }
        let run = self.run(what, "/show").await?;
        let lines = runs::describe(self.place, &run).await?;
        Ok(self.screen.print_lines(&lines)?)
    }

    /// Returns the id of the run with this prefix. A number always refers to a call instead.
    async fn run(&self, what: &str, command: &str) -> Result<String, Failure> {
        if what.is_empty() {
            return Err(Failure::usage(format!(
                "after {command} comes a run or the number of a call; /runs lists runs"
            )));
        }
        let number = what.strip_prefix("::").unwrap_or(what);
        if number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Failure::usage(format!("there is no call ::{number}; /history lists the calls")));
        }
        runs::find(self.place, what).await
    }

    async fn cancel_run_or_call(&mut self, what: &str) -> Result<(), Failure> {
        let numbered = self.session.find_by_number(what);
        let run = match numbered.map(|number| (number, self.session.entry(number))) {
            Some((number, entry)) if !matches!(entry.state, State::Running | State::Waiting) => {
                return Ok(self.screen.print_remark(&format!("::{number} is over already"))?);
            }
            Some((number, entry)) if entry.target.kind != Kind::Workflow || matches!(entry.state, State::Waiting) => {
                return self.end_call(number);
            }
            Some((number, entry)) => {
                entry.run.clone().ok_or_else(|| Failure::work(format!("::{number} is still starting; try again")))?
            }
            None => self.run(what, "/cancel").await?,
        };
        let reply = self.work.daemon().call(CancelWorkflow { run_id: run }).await?;
        if !reply.success {
            return Err(runs::not_found(&reply.run_id));
        }
        Ok(self.screen.print_remark(&format!("{}: {}", reply.run_id, reply.message))?)
    }

    async fn bring_to_foreground(&mut self, what: &str) -> Result<(), Failure> {
        let numbered = if what.is_empty() {
            let last = self.session.unfinished().last().map(|(number, _)| number);
            Some(last.ok_or_else(|| {
                Failure::usage("nothing is running; /fg RUN watches a run that was started elsewhere")
            })?)
        } else {
            self.session.find_by_number(what)
        };
        let (number, run) = match numbered {
            Some(number) => (Some(number), String::new()),
            None => {
                let run = self.run(what, "/fg").await?;
                (self.session.find_by_run(&run), run)
            }
        };
        let Some(number) = number else {
            let record = self.work.daemon().call(GetWorkflowRun { run_id: run.clone() }).await?.run;
            let Some(record) = record else { return Err(runs::not_found(&run)) };
            self.screen.print_remark("Ctrl-C stops watching; the run continues")?;
            self.follow_run(record.workflow_id, run);
            return Ok(());
        };
        if !matches!(self.session.entry(number).state, State::Running | State::Waiting) {
            return Ok(self.screen.print_remark(&format!("::{number} is over; /show {number} shows its result"))?);
        }
        self.session.entry_mut(number).quiet = false;
        let asks = self.session.questions().find(|question| question.entry == Some(number));
        if let Some(gate) = asks.map(|question| question.asking.gate().clone()) {
            // The run cannot continue without an answer.
            self.session.add_question(gate, Some(number), true);
            return Ok(self.show_question()?);
        }
        let target = visible(&self.session.entry(number).target.to_string());
        self.screen.print_remark(&format!("waiting for ::{number} {target}"))?;
        self.put_in_foreground(number, None);
        Ok(())
    }
}

/// Returns the text unless it is empty.
fn text(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}
