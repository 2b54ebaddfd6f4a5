//! The reader of graph declarations.

use std::num::NonZeroU16;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use steplatch_workflow::{Problem, suggestion};

use super::plan::Plan;
use super::{Graph, OnFailure, Policy, Retry, Step};
use crate::kind::NodeSettings;
use crate::node::{NodeId, policy_object_schema, read_object, schema_of};

/// Runs steps in the order of their dependencies; the output is that of the last one.
#[derive(Deserialize, JsonSchema)]
struct GraphShape {
    /// The steps
    steps: Vec<Value>,
    /// Maximum number of steps that run at the same time; unlimited by default
    #[serde(default)]
    max_parallel: Option<NonZeroU16>,
}

/// A step of a graph.
#[derive(Deserialize, JsonSchema)]
struct StepShape {
    /// Name of the step, unique in the graph
    id: NodeId,
    /// Node that the step calls
    node: NodeId,
    /// Input of the node: {step_id} is the output of a step, which is then a dependency, {input} the graph's input
    #[serde(default)]
    input: Option<Value>,
    /// Steps that must have finished before this step
    #[serde(default)]
    depends_on: Vec<NodeId>,
    /// Error policy of the step (default fail)
    #[serde(default)]
    #[expect(dead_code, reason = "read separately, so that its problems are reported in addition to all others")]
    on_error: Option<Value>,
}

/// A failed step is skipped.
#[derive(Deserialize, JsonSchema)]
struct Skip {
    /// Output to use instead (default null)
    #[serde(default)]
    value: Option<Value>,
}

/// Calls another node with the same input.
#[derive(Deserialize, JsonSchema)]
struct Fallback {
    /// The node
    node: NodeId,
}

/// Steps that depend on a failed one do not run, and the graph fails.
#[derive(Deserialize, JsonSchema)]
struct Fail {}

/// Names of the policies.
const POLICIES: [&str; 4] = ["fail", "retry", "skip", "fallback"];

impl Policy {
    /// Returns the JSON Schema of a policy, as authors write it.
    fn schema() -> Value {
        let endings = json!([
            {"enum": ["fail", "skip"]},
            policy_object_schema::<Fail>("fail"),
            policy_object_schema::<Skip>("skip"),
            policy_object_schema::<Fallback>("fallback")
        ]);
        let mut retry = policy_object_schema::<Retry>("retry");
        retry["properties"]["then"] =
            json!({"description": "Action if all retries fail (default fail)", "oneOf": endings.clone()});
        let mut policies = endings;
        if let Value::Array(policies) = &mut policies {
            policies.push(retry);
        }
        json!({"description": "Action if the step fails (default fail)", "oneOf": policies})
    }
}

impl NodeSettings for Graph {
    const IS_PERFORMED_HERE: bool = false;

    fn read(fields: &Map<String, Value>, common_keys: &[String], problems: &mut Vec<Problem>) -> Option<Self> {
        let shape: GraphShape = read_object(fields, "", "a graph", common_keys, problems)?;
        let problem_count = problems.len();
        let mut steps = Vec::with_capacity(shape.steps.len());
        for (index, step) in shape.steps.iter().enumerate() {
            steps.extend(read_step(step, &format!("/steps/{index}"), problems));
        }
        // Dependencies on an unreadable step would be reported as unknown steps.
        if problems.len() > problem_count {
            return None;
        }
        match Plan::from_steps(&steps) {
            Ok(plan) => Some(Self { steps, max_parallel: shape.max_parallel, plan }),
            Err(found) => {
                problems.extend(found);
                None
            }
        }
    }

    fn schema() -> Value {
        let mut step = schema_of::<StepShape>();
        step["additionalProperties"] = false.into();
        step["properties"]["on_error"] = Policy::schema();
        let mut graph = schema_of::<GraphShape>();
        graph["properties"]["steps"]["items"] = step;
        graph
    }
}

fn read_step(step: &Value, pointer: &str, problems: &mut Vec<Problem>) -> Option<Step> {
    let Value::Object(fields) = step else {
        problems.push(Problem::error(pointer, "a step must be an object"));
        return None;
    };
    let shape = read_object::<StepShape>(fields, pointer, "a step", &[], problems);
    let on_error = match fields.get("on_error") {
        None | Some(Value::Null) => Some(Policy::default()),
        Some(policy) => read_policy(policy, &format!("{pointer}/on_error"), problems),
    };
    let StepShape { id, node, input, depends_on, on_error: _ } = shape?;
    Some(Step { id, node, input: input.unwrap_or_else(|| "{input}".into()), depends_on, on_error: on_error? })
}

fn read_policy(policy: &Value, pointer: &str, problems: &mut Vec<Problem>) -> Option<Policy> {
    let without_retry = |on_failure| Some(Policy { retry: None, on_failure });
    let (word, mut fields) = match policy {
        Value::String(word) => (word.as_str(), Map::new()),
        Value::Object(fields) => match fields.get("policy") {
            Some(Value::String(word)) => (word.as_str(), fields.clone()),
            _ => {
                problems.push(Problem::error(pointer, format!("'policy' must be one of {}", POLICIES.join(", "))));
                return None;
            }
        },
        _ => {
            let message = "a policy must be a word, or an object with 'policy'";
            problems.push(Problem::error(pointer, message));
            return None;
        }
    };
    fields.shift_remove("policy");
    match word {
        "fail" => {
            read_object::<Fail>(&fields, pointer, "policy fail", &[], problems)?;
            without_retry(OnFailure::Fail)
        }
        "skip" => {
            let Skip { value } = read_object(&fields, pointer, "policy skip", &[], problems)?;
            without_retry(OnFailure::Skip { value: value.unwrap_or_default() })
        }
        "fallback" => {
            let Fallback { node } = read_object(&fields, pointer, "policy fallback", &[], problems)?;
            without_retry(OnFailure::Fallback { node })
        }
        "retry" => {
            let then = fields.shift_remove("then");
            let retry: Retry = read_object(&fields, pointer, "policy retry", &["then".to_owned()], problems)?;
            let then = match then {
                None | Some(Value::Null) => Policy::default(),
                Some(then) => read_policy(&then, &format!("{pointer}/then"), problems)?,
            };
            if then.retry.is_some() {
                let message = "the policy after the retries cannot be a retry";
                problems.push(Problem::error(format!("{pointer}/then"), message));
            }
            Some(Policy { retry: Some(retry), on_failure: then.on_failure })
        }
        unknown => {
            let nearest = suggestion(unknown, POLICIES.into_iter());
            let nearest =
                if nearest.is_empty() { format!("; the policies are {}", POLICIES.join(", ")) } else { nearest };
            problems.push(Problem::error(pointer, format!("unknown policy '{unknown}'{nearest}")));
            None
        }
    }
}
