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
    /// A status lacks its word.
    #[error("the answer has no status")]
    NoStatus,
    /// The word of a status has no visible character.
    #[error("the answer has an empty status")]
    EmptyStatus,
    /// The answer to a start lacks an id, or has an id that is not usable in a path.
    #[error("the answer has no valid {field}")]
    NoId {
        /// The field of the answer.
        field: &'static str,
    },
    /// A list has neither of the accepted shapes.
    #[error("the list is neither an array nor a page")]
    NotList,
    /// A page lacks its entries.
    #[error("the page has no results")]
    NoResults,
    /// The link to the next page is not a string.
    #[error("the link to the next page is not text")]
    NoNextPage,
    /// The MCP tool that lists workflows reports a failure.
    #[error("the tool failed: {message}")]
    ToolFailed {
        /// The error of the tool, cleaned; at most 300 characters.
        message: String,
    },
    /// The structured result of the tool lacks a list.
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
    /// The entry lacks an id, or has an id that is not usable in a path.
    #[error("it has no valid id")]
    NoId,
    /// The entry lacks a name for people.
    #[error("it has neither a title nor a name")]
    NoTitle,
}
