//! The cases about remote workflows, the same for every engine.

use serde_json::{Value, json};
use steplatch_testkit::fake::{Route, TOKEN};
use steplatch_testkit::{FakeService, eventually_blocking};
use tokio::runtime::Runtime;

use super::rig::{Rig, expect_run_id};

/// A service used by the home of a rig. It offers the tool `workflow_deploy`, whose runs do not change by themselves.
pub(super) struct Service {
    fake: FakeService,
    _runtime: Runtime,
}

impl Service {
    pub(super) fn start(rig: &Rig) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let fake = runtime.block_on(FakeService::start());
        fake.offer("7", "Deploy");
        fake.script("7", vec![json!({"status": "RUNNING", "output": null})]);
        rig.home.configure_service(&fake.url(), TOKEN);
        eventually_blocking("the remote workflow is a tool", || {
            rig.home.run(&["remote", "refresh"]);
            rig.home.run(&["workflow", "list"]).stdout.contains("workflow_deploy")
        });
        Self { fake, _runtime: runtime }
    }

    /// Waits until the service has a run and returns its remote id.
    fn wait_for_run(&self) -> String {
        self.newest_run(1)
    }

    /// Waits until the service has this number of runs and returns the remote id of the last one.
    pub(super) fn newest_run(&self, count: usize) -> String {
        eventually_blocking("the service has the run", || Some(self.fake.runs().get(count - 1)?.id.clone()))
    }

    pub(super) fn set_status(&self, run: &str, status: Value) {
        self.fake.script_run(run, vec![status]);
    }

    fn complete(&self, run: &str) {
        self.set_status(run, json!({"status": "COMPLETED", "output": {"deployed": "prod"}}));
    }

    pub(super) fn cancel_count(&self) -> usize {
        self.fake.count(Route::Cancel)
    }
}

pub(super) fn start_remote_run(rig: &Rig) -> String {
    expect_run_id(&rig.agent.call_tool("run_workflow", json!({"workflow_name": "workflow_deploy", "wait_seconds": 0})))
}

/// Returns a state machine that waits for the remote workflow and returns its result.
pub(super) fn outer_workflow() -> Value {
    json!({"initial_state": "nest", "states": {
        "nest": {"action": {"tool": "run_workflow", "params": {"workflow_name": "workflow_deploy"}},
                 "transitions": [{"condition": "success", "next_state": "end"}]},
        "end": {"action": {"tool": "return", "params": {"result": "{nest_result}"}}}}})
}

pub(super) fn remote_workflow_survives_crashes_and_starts_once(rig: &Rig) {
    let service = Service::start(rig);
    let run = start_remote_run(rig);
    let remote_run = service.wait_for_run();
    rig.crash();
    rig.recover();
    service.complete(&remote_run);
    let outcome = rig.wait_for_end(&run);
    assert_eq!(
        (&outcome["status"], &outcome["result"]["output"]["deployed"]),
        (&json!("completed"), &json!("prod")),
        "{outcome}"
    );
    assert_eq!(service.fake.count(Route::Start), 1);
}

pub(super) fn cancelled_remote_workflow_is_cancelled_at_its_service(rig: &Rig) {
    let service = Service::start(rig);
    let run = start_remote_run(rig);
    service.wait_for_run();
    rig.home.run(&["runs", "cancel", &run]).expect_success();
    assert_eq!(rig.wait_for_end(&run)["status"], "cancelled");
    assert_eq!(service.cancel_count(), 1);
}

pub(super) fn machine_waits_for_its_remote_workflow(rig: &Rig) {
    let service = Service::start(rig);
    let run = rig.begin(outer_workflow());
    let remote_run = service.wait_for_run();
    rig.crash();
    rig.recover();
    service.complete(&remote_run);
    let outcome = rig.wait_for_end(&run);
    assert!(outcome["result"].to_string().contains("prod"), "{outcome}");
    assert_eq!((&outcome["status"], service.fake.count(Route::Start)), (&json!("completed"), 1), "{outcome}");
}

pub(super) fn function_waits_for_its_remote_workflow(rig: &Rig) {
    let service = Service::start(rig);
    let run = rig.begin_file(
        "async def story(ctx):\n    told = await ctx.run_workflow('workflow_deploy')\n    return told['output']['deployed']\n\
         Workflow(id='story', session=session, fn=story)\n",
        json!({}),
    );
    let remote_run = service.wait_for_run();
    rig.crash();
    rig.recover();
    service.complete(&remote_run);
    let outcome = rig.wait_for_end(&run);
    assert_eq!((&outcome["status"], &outcome["result"]), (&json!("completed"), &json!("prod")), "{outcome}");
    assert_eq!(service.fake.count(Route::Start), 1);
}

pub(super) fn secret_input_of_a_remote_workflow_returns_to_its_function(rig: &Rig) {
    let service = Service::start(rig);
    let run = rig.begin_file(
        &format!(
            "async def story(ctx):\n    told = await ctx.run_workflow('workflow_deploy', params={{'note': '{TOKEN}'}})\n\
             \x20   return [told['output']['deployed'], len(told['input']['note'])]\n\
             Workflow(id='story', session=session, fn=story)\n"
        ),
        json!({}),
    );
    service.complete(&service.wait_for_run());
    let outcome = rig.wait_for_end(&run);
    assert_eq!(
        (&outcome["status"], &outcome["result"]),
        (&json!("completed"), &json!(["prod", TOKEN.len()])),
        "{outcome}"
    );
}

pub(super) fn cancelled_machine_cancels_its_remote_workflow(rig: &Rig) {
    let service = Service::start(rig);
    let run = rig.begin(outer_workflow());
    service.wait_for_run();
    rig.home.run(&["runs", "cancel", &run]).expect_success();
    assert_eq!(rig.wait_for_end(&run)["status"], "cancelled");
    eventually_blocking("the service has cancelled the run", || service.cancel_count() == 1);
}

pub(super) fn machine_is_paused_with_its_remote_workflow(rig: &Rig) {
    let service = Service::start(rig);
    let run = rig.begin(outer_workflow());
    let remote_run = service.wait_for_run();
    rig.home.run(&["runs", "pause", &run]).expect_success();
    let nested_run = eventually_blocking("the nested run is paused", || {
        let nested_run = rig.nested_run(&run)?;
        (!nested_run["paused"].is_null()).then_some(nested_run)
    });
    rig.home.run(&["runs", "resume", &run]).expect_success();
    service.complete(&remote_run);
    assert_eq!(rig.wait_for_end(&run)["status"], "completed", "{nested_run}");
}
