use serde::Serialize;

/// What a query is doing right now. Serialises to the JSON of Spark's `StreamingQueryStatus`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamingQueryStatus {
    /// For people.
    pub message: String,
    /// Whether the last look at the sources found something.
    pub is_data_available: bool,
    /// Whether a trigger is being worked on, rather than waited for.
    pub is_trigger_active: bool,
}
