//! Errors in the answers of a service.

/// An error in an answer, as a fragment without a full stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The answer is longer than [`crate::MAX_ANSWER_BYTES`].
    #[error("the answer is too long")]
    TooLong,
    /// The body of the answer is not JSON.
    #[error("the answer is not JSON")]
    NotJson,
    /// A status is not an object.
    #[error("the answer is not an object")]
    NotObject,
    /// The answer has no status.
    #[error("the answer has no status")]
    NoStatus,
    /// The status has no visible characters.
    #[error("the answer has an empty status")]
    EmptyStatus,
    /// The answer to a start has no id, or an id that is not usable in a path.
    #[error("the answer has no valid {field}")]
    NoId {
        /// Name of the field.
        field: &'static str,
    },
    /// The list has neither of the accepted forms.
    #[error("the list is neither an array nor a page")]
    NotList,
    /// A page has no entries.
    #[error("the page has no results")]
    NoResults,
    /// The link to the next page is not a string.
    #[error("the link to the next page is not a string")]
    NoNextPage,
    /// The MCP tool that lists workflows reports a failure.
    #[error("the tool failed: {message}")]
    ToolFailed {
        /// Error of the tool, cleaned; at most 300 characters.
        message: String,
    },
    /// The structured result of the tool has no list.
    #[error("the result of the tool has no list")]
    ToolWithoutList,
    /// The text of the tool's result is not JSON.
    #[error("the text of the tool's result is not JSON")]
    ToolTextNotJson,
}

/// Error in an entry of a list, as a sentence without a full stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// The entry is not an object.
    #[error("it is not an object")]
    NotObject,
    /// The entry has no id, or an id that is not usable in a path.
    #[error("it has no valid id")]
    NoId,
    /// The entry has neither a title nor a name.
    #[error("it has neither a title nor a name")]
    NoTitle,
}
