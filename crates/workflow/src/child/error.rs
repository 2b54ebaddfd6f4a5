//! Problems with the parameters of a `run_workflow`.

use steplatch_ids::InvalidId;

use super::DEFINITION;
use crate::event::InvalidLimits;

/// A problem of one parameter, or of all parameters together.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum InvalidChild {
    /// No parameter names the workflow.
    #[error("Either '{DEFINITION}' or 'workflow_name' must be provided")]
    NoWorkflow,
    /// Two parameters name the workflow.
    #[error("Provide either '{DEFINITION}' OR 'workflow_name', not both")]
    TwoWorkflows,
    /// The definition is not an object.
    #[error("'{DEFINITION}' must be an object")]
    DefinitionType,
    /// The name is not text.
    #[error("'workflow_name' must be a text")]
    NameType,
    /// The name is not valid for a workflow.
    #[error(transparent)]
    Name(#[from] InvalidId),
    /// The variables are not an object.
    #[error("'initial_variables' must be an object")]
    VariablesType,
    /// A limit is wrong.
    #[error(transparent)]
    Limit(#[from] InvalidLimit),
}

impl InvalidChild {
    /// Returns the name of the parameter with the problem; an empty name for all parameters together.
    pub(crate) fn param(&self) -> &'static str {
        match self {
            Self::NoWorkflow => "",
            Self::TwoWorkflows | Self::NameType | Self::Name(_) => "workflow_name",
            Self::DefinitionType => DEFINITION,
            Self::VariablesType => "initial_variables",
            Self::Limit(limit) => limit.param(),
        }
    }
}

/// Reason that a parameter is not a limit of a run.
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
