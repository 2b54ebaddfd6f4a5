//! Problems with the parameters of a `run_workflow`.

use steplatch_ids::InvalidId;

use super::DEFINITION;
use crate::event::InvalidLimits;

/// Problem with one parameter, or with the parameters together.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum InvalidChild {
    /// No parameter names the workflow.
    #[error("Either '{DEFINITION}' or 'workflow_name' must be provided")]
    MissingWorkflow,
    /// Two parameters name the workflow.
    #[error("Provide either '{DEFINITION}' OR 'workflow_name', not both")]
    ConflictingWorkflows,
    /// The definition is not an object.
    #[error("'{DEFINITION}' must be an object")]
    DefinitionNotObject,
    /// The name is not a string.
    #[error("'workflow_name' must be a string")]
    NameNotText,
    /// The name is not valid for a workflow.
    #[error(transparent)]
    InvalidName(#[from] InvalidId),
    /// The variables are not an object.
    #[error("'initial_variables' must be an object")]
    VariablesNotObject,
    /// A limit is not valid.
    #[error(transparent)]
    InvalidLimit(#[from] InvalidLimit),
}

impl InvalidChild {
    /// Returns the name of the invalid parameter; an empty name for the parameters together.
    pub(crate) fn param(&self) -> &'static str {
        match self {
            Self::MissingWorkflow => "",
            Self::ConflictingWorkflows | Self::NameNotText | Self::InvalidName(_) => "workflow_name",
            Self::DefinitionNotObject => DEFINITION,
            Self::VariablesNotObject => "initial_variables",
            Self::InvalidLimit(limit) => limit.param(),
        }
    }
}

/// Reason a parameter is not a valid limit for a run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum InvalidLimit {
    /// The value is not a number.
    #[error("'{0}' must be a number")]
    NotNumber(&'static str),
    /// The value is not a whole number.
    #[error("'{0}' must be a whole number")]
    NotWhole(&'static str),
    /// The value is out of its bounds.
    #[error(transparent)]
    OutOfBounds(#[from] InvalidLimits),
}

impl InvalidLimit {
    fn param(&self) -> &'static str {
        match self {
            Self::NotNumber(param) | Self::NotWhole(param) => param,
            Self::OutOfBounds(InvalidLimits::MaxStates(_)) => "max_states",
            Self::OutOfBounds(InvalidLimits::ExecutionTimeout(_)) => "execution_timeout",
        }
    }
}
