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
    /// Executes the command named `name` with the arguments in `arguments`.
    pub(super) async fn execute_command(&mut self, name: &str, arguments: &str) -> Result<(), Failure> {
        let arguments = arguments.trim();
        match order::find(name).map_err(Failure::usage)? {
            Order::Help => {
                let lines = help::topic_text(arguments).map_err(Failure::usage)?;
                self.screen.print_lines(&lines)?;
            }
            Order::Nodes => self.list_nodes(arguments).await?,
            Order::Graphs => self.list_graphs(arguments).await?,
            Order::Workflows => self.list_workflows(arguments).await?,
            Order::Runs => self.list_runs(arguments).await?,
            Order::Gates => self.list_gates().await?,
            Order::Answer => self.answer_by_command(arguments).await?,
            Order::Show => self.show_run_or_result(arguments).await?,
            Order::Cancel => self.cancel_run_or_call(arguments).await?,
            Order::Foreground => self.bring_to_foreground(arguments).await?,
            Order::Background => {
                let lines = format::call_rows(self.session.unfinished());
                self.show_list(&lines, "nothing is running; /bg LINE starts a call without waiting for it")?;
            }
            Order::History => {
                let lines = format::call_rows(self.session.entries());
                self.show_list(&lines, "no calls yet; see /help")?;
            }
            Order::Target => self.change_target(arguments).await?,
            Order::FullScreen => self.open_full_screen(arguments).await?,
            Order::Clear if self.screen.is_interactive() => print::clear()?,
            Order::Clear => {}
            Order::Quit => self.is_closed = true,
        }
        Ok(())
    }

    /// Executes `/ui` and `/ui RUN`. The editor does not read in the meantime, because no line is requested.
    async fn open_full_screen(&mut self, reference: &str) -> Result<(), Failure> {
        let run = match reference {
            "" => None,
            reference => Some(
                match self
                    .session
                    .find_by_number(reference)
                    .map(|number| (number, self.session.entry(number).run.clone()))
                {
                    Some((_, Some(run))) => run,
                    Some((number, None)) => {
                        return Err(Failure::usage(format!("::{number} is not a run; /runs lists runs")));
                    }
                    None => self.run(reference, "/ui").await?,
                },
            ),
        };
        ui::check_terminal()?;
        if let ExitReason::BySignal(_) = Box::pin(ui::show(self.paths, run)).await? {
            self.is_closed = true;
        }
        Ok(())
    }

    /// Executes `/target`, `/target @NODE` and `/target off`.
    async fn change_target(&mut self, argument: &str) -> Result<(), Failure> {
        let line = match argument {
            "" => {
                let target = self.session.target().map(|target| visible(&target.to_string()));
                let remark = target.map_or_else(
                    || "plain text has no target; /target @NODE sends it to a node".to_owned(),
                    |target| format!("plain text is sent to {target}; /target off ends that"),
                );
                return Ok(self.screen.print_remark(&remark)?);
            }
            "off" => {
                self.session.set_target(None);
                return Ok(self.screen.print_remark("plain text has no target any more")?);
            }
            name => line::read(name).map_err(Failure::usage)?,
        };
        let target = match line {
            Line::Call { target, text } if text.is_empty() => target,
            _ => return Err(Failure::usage("/target takes one name: @NODE, #GRAPH or %WORKFLOW, or off")),
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

    /// Prints the lines, or the remark if there are none.
    fn show_list(&mut self, lines: &[String], remark: &str) -> std::io::Result<()> {
        if lines.is_empty() { self.screen.print_remark(remark) } else { self.screen.print_lines(lines) }
    }

    async fn list_nodes(&mut self, containing: &str) -> Result<(), Failure> {
        let reply = self.work.daemon().call(ListNodes { containing: non_empty(containing) }).await?;
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
        let reply = self.work.daemon().call(ListGraphs { containing: non_empty(containing) }).await?;
        if let Some(error) = reply.error {
            return Err(Failure::work(error));
        }
        let rows = reply.graphs.iter().map(|graph| {
            let description = visible(graph.description.as_deref().unwrap_or_default());
            vec![format!("#{}", graph.id), visible(&graph.steps.join(", ")), description]
        });
        let lines = format::table(["GRAPH", "STEPS", "DESCRIPTION"], rows);
        self.show_list(&lines, "no matching graph; see /help graphs")?;
        self.show_broken(reply.broken.iter().map(|broken| (broken.id.as_deref(), &*broken.file, &*broken.reason)))
    }

    async fn list_workflows(&mut self, containing: &str) -> Result<(), Failure> {
        let verb = ListWorkflows { containing: non_empty(containing), ..ListWorkflows::default() };
        let reply = self.work.daemon().call(verb).await?;
        if let Some(error) = reply.error {
            return Err(Failure::work(error));
        }
        let rows = reply.workflows.iter().map(|workflow| {
            let runs = format!("{} of {}", workflow.success_count, workflow.run_count);
            let description = visible(workflow.description.as_deref().unwrap_or_default());
            vec![format!("%{}", workflow.name), workflow.status.clone(), runs, description]
        });
        let lines = format::table(["WORKFLOW", "STATUS", "SUCCEEDED", "DESCRIPTION"], rows);
        self.show_list(&lines, "no matching workflow; %./FILE.json or %./FILE.py runs one from a file")?;
        let more = reply.total.saturating_sub(reply.workflows.len());
        if more > 0 && containing.is_empty() {
            self.screen.print_remark(&format!("{more} more; /workflows TEXT searches all of them"))?;
        }
        self.show_broken(reply.broken.iter().map(|broken| (None, &*broken.file, &*broken.reason)))
    }

    fn show_broken<'b>(
        &mut self,
        broken: impl Iterator<Item = (Option<&'b str>, &'b str, &'b str)>,
    ) -> Result<(), Failure> {
        for (name, file, reason) in broken {
            let origin = name.map_or_else(|| visible(file), |name| format!("{} in {}", visible(name), visible(file)));
            self.screen.print_remark(&format!("{origin} cannot be used: {}", reason.trim_end().replace('\n', "; ")))?;
        }
        Ok(())
    }

    async fn list_runs(&mut self, filter: &str) -> Result<(), Failure> {
        let (state, workflow) = match non_empty(filter) {
            Some(state) if STATES.contains(&state.as_str()) => (Some(state), None),
            workflow => (None, workflow.map(|name| name.trim_start_matches('%').to_owned())),
        };
        let found = runs::list_runs(self.paths, workflow, state, MAX_RUNS).await?;
        let ids: Vec<String> = found.iter().map(|run| run.run_id.clone()).collect();
        self.screen.lines.change_words(|words| {
            words.runs.retain(|known| !ids.contains(known));
            words.runs.splice(0..0, ids);
        });
        let lines = format::table(
            ["ID", "WORKFLOW", "STATE", "STARTED", "DURATION", "DETAILS"],
            found.iter().map(runs::format_row),
        );
        Ok(self.show_list(&lines, "no matching run; %NAME starts one")?)
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
    async fn answer_by_command(&mut self, arguments: &str) -> Result<(), Failure> {
        if arguments.is_empty() {
            return Err(Failure::usage("/answer needs an answer, or a run and an answer"));
        }
        let gates: Vec<GateInfo> = self.work.questions().await?.into_iter().map(|(_, gate)| gate).collect();
        let (gate, answer) = self.resolve_answer(gates, arguments).map_err(Failure::usage)?;
        let (id, entry) = (gate.gate_id.clone(), self.session.find_by_run(&gate.run_id));
        self.session.add_question(gate, entry, true);
        self.answer_question(&id, answer).await
    }

    /// Determines the gate that `/answer` refers to, and the answer.
    fn resolve_answer<'t>(&self, gates: Vec<GateInfo>, arguments: &'t str) -> Result<(GateInfo, &'t str), String> {
        let (first, answer) = arguments.split_once(char::is_whitespace).unwrap_or((arguments, ""));
        let has_prefix = |gate: &&GateInfo| {
            let id = gate.run_id.strip_prefix("run_").unwrap_or(&gate.run_id);
            let prefix = first.strip_prefix("run_").unwrap_or(first);
            prefix.len() >= MIN_RUN_ID_PREFIX_LEN && id.starts_with(prefix)
        };
        let of_run: Vec<&GateInfo> = gates.iter().filter(has_prefix).collect();
        match (&of_run[..], self.session.current_question(), &gates[..]) {
            ([_, ..], _, _) if answer.trim().is_empty() => Err(format!("/answer {first} needs an answer")),
            ([gate], _, _) => Ok(((*gate).clone(), answer.trim())),
            ([_, _, ..], Some(asked), _) if of_run.iter().any(|gate| gate.gate_id == asked.asking.gate().gate_id) => {
                Ok((asked.asking.gate().clone(), answer.trim()))
            }
            ([_, _, ..], _, _) => Err(format!("'{first}' waits for several answers; /gates asks for them one by one")),
            ([], Some(asked), _) => Ok((asked.asking.gate().clone(), arguments)),
            ([], None, [gate]) => Ok((gate.clone(), arguments)),
            ([], None, []) => Err("no run waits for an answer".to_owned()),
            ([], None, _) => {
                Err("several runs wait for an answer; name one with /answer RUN ANSWER, or list them with /gates"
                    .to_owned())
            }
        }
    }

    async fn show_run_or_result(&mut self, reference: &str) -> Result<(), Failure> {
        let numbered = self.session.find_by_number(reference);
        if let Some(number) = numbered {
            let entry = self.session.entry(number);
            match (&entry.state, entry.run.clone()) {
                (State::Running, Some(run)) => {
                    let lines = runs::describe(self.paths, &run).await?;
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
        let run = self.run(reference, "/show").await?;
        let lines = runs::describe(self.paths, &run).await?;
        Ok(self.screen.print_lines(&lines)?)
    }

    /// Returns the id of the run with this prefix. A number always refers to a call instead.
    async fn run(&self, reference: &str, command: &str) -> Result<String, Failure> {
        if reference.is_empty() {
            return Err(Failure::usage(format!("{command} needs a run or the number of a call; /runs lists runs")));
        }
        let number = reference.strip_prefix("::").unwrap_or(reference);
        if number.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Failure::usage(format!("there is no call ::{number}; /history lists the calls")));
        }
        runs::find(self.paths, reference).await
    }

    async fn cancel_run_or_call(&mut self, reference: &str) -> Result<(), Failure> {
        let numbered = self.session.find_by_number(reference);
        let run = match numbered.map(|number| (number, self.session.entry(number))) {
            Some((number, entry)) if !matches!(entry.state, State::Running | State::Waiting) => {
                return Ok(self.screen.print_remark(&format!("::{number} has already ended"))?);
            }
            Some((number, entry)) if entry.target.kind != Kind::Workflow || matches!(entry.state, State::Waiting) => {
                return self.end_call(number);
            }
            Some((number, entry)) => {
                entry.run.clone().ok_or_else(|| Failure::work(format!("::{number} is still starting; try again")))?
            }
            None => self.run(reference, "/cancel").await?,
        };
        let reply = self.work.daemon().call(CancelWorkflow { run_id: run }).await?;
        if !reply.success {
            return Err(runs::not_found(&reply.run_id));
        }
        Ok(self.screen.print_remark(&format!("{}: {}", reply.run_id, reply.message))?)
    }

    async fn bring_to_foreground(&mut self, reference: &str) -> Result<(), Failure> {
        let numbered = if reference.is_empty() {
            let last = self.session.unfinished().last().map(|(number, _)| number);
            Some(last.ok_or_else(|| {
                Failure::usage("nothing is running; /fg RUN watches a run that another program started")
            })?)
        } else {
            self.session.find_by_number(reference)
        };
        let (number, run) = match numbered {
            Some(number) => (Some(number), String::new()),
            None => {
                let run = self.run(reference, "/fg").await?;
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
            return Ok(self.screen.print_remark(&format!("::{number} has ended; /show {number} shows its result"))?);
        }
        self.session.entry_mut(number).quiet = false;
        let question = self.session.questions().find(|question| question.entry == Some(number));
        if let Some(gate) = question.map(|question| question.asking.gate().clone()) {
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
fn non_empty(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}
