//! Problems with the parameters of a gate.

use serde_json::Value;

/// A problem with one parameter, or with all parameters together.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum InvalidQuestion {
    /// There is no prompt.
    #[error("'prompt' must contain the question")]
    NoPrompt,
    /// The prompt is empty.
    #[error("'prompt' must contain the question")]
    EmptyPrompt,
    /// The choices are not a list.
    #[error("'choices' must be a list of strings")]
    ChoicesType,
    /// There are no choices, or too many.
    #[error("'choices' must have 1 to 20 entries")]
    ChoiceCount,
    /// A choice is empty, or not a string.
    #[error("each entry of 'choices' must be a non-empty string")]
    ChoiceType,
    /// Two choices are equal.
    #[error("'choices' has duplicate entries")]
    SameChoices,
    /// There are choices and a form.
    #[error("a gate must have either 'choices' or a 'form', not both")]
    ChoicesAndForm,
    /// A problem of the form.
    #[error("{0}")]
    Form(String),
    /// A field of the form has the name of another variable.
    #[error("'{0}' is a reserved variable; rename the field")]
    ReservedField(String),
    /// The time limit is out of its allowed range, or not a number.
    #[error("'timeout' of a gate must be a number of seconds from 0 to 31536000, not {0}")]
    Timeout(Value),
    /// The value of `answered_by` is unknown.
    #[error("'answered_by' must be human, agent or anyone, not {0}")]
    AnsweredBy(Value),
    /// A problem of the groups of approvers.
    #[error(transparent)]
    Approvers(InvalidApprovers),
}

/// A problem with the groups of approvers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidApprovers {
    /// The groups that are reached at once.
    #[error(
        "'approvers' must be the name of a group of notifications, or a list of at most 10: letters, digits, '.', '_' and '-'"
    )]
    Approvers,
    /// The groups that are reached later.
    #[error(
        "'escalate_after' must have groups of notifications with seconds, such as {{\"leads\": 3600}}, at most 10 of them"
    )]
    EscalateAfter,
}

impl InvalidQuestion {
    /// Returns the name of the parameter with the problem; an empty name for all parameters together.
    pub(crate) fn param(&self) -> &'static str {
        match self {
            Self::NoPrompt => "",
            Self::EmptyPrompt => "prompt",
            Self::ChoicesType | Self::ChoiceCount | Self::ChoiceType | Self::SameChoices => "choices",
            Self::ChoicesAndForm | Self::Form(_) | Self::ReservedField(_) => "form",
            Self::Timeout(_) => "timeout",
            Self::AnsweredBy(_) => "answered_by",
            Self::Approvers(InvalidApprovers::Approvers) => "approvers",
            Self::Approvers(InvalidApprovers::EscalateAfter) => "escalate_after",
        }
    }
}
