//! Which route asks for which right: one table, a row for every method and path that is served.
//!
//! A route without a row is refused, so that a new one can not be open by oversight; a test demands a row for each.

use super::role::Right;
use axum::http::Method;

/// What a caller needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing, not even a key.
    Nothing,
    /// A key whose role has this right.
    Right(Right),
}

/// One method of one path.
#[derive(Debug)]
pub struct Row {
    /// The method; `HEAD` is asked as `GET`.
    pub method: Method,
    /// The path as the router spells it.
    pub path: &'static str,
    /// What it needs.
    pub need: Need,
}

const fn row(method: Method, path: &'static str, right: Right) -> Row {
    Row { method, path, need: Need::Right(right) }
}

const fn open(path: &'static str) -> Row {
    Row { method: Method::GET, path, need: Need::Nothing }
}

/// Every route that is served, in the order of the documentation.
pub static ROUTES: &[Row] = &[
    row(Method::POST, "/v1/chat/completions", Right::ChatWrite),
    row(Method::POST, "/v1/responses", Right::ChatWrite),
    row(Method::GET, "/v1/responses/{id}", Right::ChatWrite),
    row(Method::DELETE, "/v1/responses/{id}", Right::ChatWrite),
    row(Method::POST, "/v1/messages", Right::ChatWrite),
    row(Method::POST, "/v1/messages/count_tokens", Right::ModelRead),
    row(Method::POST, "/v1/embeddings", Right::ChatWrite),
    row(Method::GET, "/v1/models", Right::ModelRead),
    row(Method::GET, "/v1/models/{*model}", Right::ModelRead),
    row(Method::POST, "/v1/runs", Right::RunStart),
    row(Method::GET, "/v1/runs", Right::RunRead),
    row(Method::GET, "/v1/runs/{id}", Right::RunRead),
    row(Method::GET, "/v1/runs/{id}/events", Right::RunRead),
    row(Method::POST, "/v1/runs/{id}/stop", Right::RunStop),
    row(Method::POST, "/v1/runs/{id}/resume", Right::RunStart),
    row(Method::GET, "/v1/runs/{id}/tool-invocations", Right::RunRead),
    row(Method::POST, "/v1/runs/{id}/tool-invocations", Right::RunStart),
    row(Method::POST, "/v1/runs/{id}/tool-invocations/{invocation}/reconcile", Right::RunStart),
    row(Method::GET, "/v1/tools/invocations", Right::RunRead),
    row(Method::GET, "/v1/approvals", Right::RunRead),
    row(Method::GET, "/v1/approvals/{id}", Right::RunRead),
    row(Method::POST, "/v1/approvals/{id}/approve", Right::HoldAnswer),
    row(Method::POST, "/v1/approvals/{id}/deny", Right::HoldAnswer),
    row(Method::GET, "/v1/runs/{id}/journal", Right::JournalRead),
    row(Method::GET, "/v1/runs/{id}/verify", Right::JournalRead),
    row(Method::POST, "/v1/runs/{id}/replay", Right::JournalRead),
    row(Method::POST, "/v1/runs/{id}/gates/{name}/waive", Right::HoldAnswer),
    row(Method::GET, "/v1/tools/policy", Right::ToolsManage),
    row(Method::PUT, "/v1/tools/policy", Right::ToolsManage),
    row(Method::GET, "/v1/approvals/grants", Right::RunRead),
    row(Method::POST, "/v1/approvals/grants", Right::HoldAnswer),
    row(Method::DELETE, "/v1/approvals/grants/{project}/{id}", Right::HoldAnswer),
    row(Method::GET, "/v1/gates", Right::RunRead),
    row(Method::GET, "/v1/gates/{project}/{name}", Right::RunRead),
    row(Method::POST, "/v1/gates/{project}/{name}/evidence", Right::HoldAnswer),
    row(Method::GET, "/v1/runs/usage/summary", Right::UsageRead),
    row(Method::GET, "/v1/usage", Right::UsageRead),
    row(Method::GET, "/v1/budgets", Right::UsageRead),
    row(Method::GET, "/v1/budgets/{scope}", Right::UsageRead),
    row(Method::PUT, "/v1/budgets/{scope}", Right::BudgetsManage),
    row(Method::DELETE, "/v1/budgets/{scope}", Right::BudgetsManage),
    row(Method::GET, "/v1/artifacts", Right::RunRead),
    row(Method::GET, "/v1/artifacts/{project}/{name}", Right::RunRead),
    row(Method::PUT, "/v1/artifacts/{project}/{name}", Right::RunStart),
    row(Method::GET, "/v1/projects/{project}", Right::RunRead),
    row(Method::PUT, "/v1/projects/{project}", Right::RunStart),
    row(Method::GET, "/v1/search", Right::RunRead),
    row(Method::GET, "/v1/sessions", Right::RunRead),
    row(Method::GET, "/v1/sessions/{id}", Right::RunRead),
    row(Method::GET, "/v1/sessions/{id}/messages", Right::RunRead),
    row(Method::GET, "/v1/sessions/{id}/journal", Right::JournalRead),
    row(Method::POST, "/v1/keys", Right::KeysManage),
    row(Method::GET, "/v1/keys", Right::KeysManage),
    row(Method::GET, "/v1/keys/{id}", Right::KeysManage),
    row(Method::DELETE, "/v1/keys/{id}", Right::KeysManage),
    row(Method::GET, "/v1/harness/providers", Right::HealthRead),
    row(Method::POST, "/v1/harness/providers/{id}/test", Right::CredentialsManage),
    row(Method::GET, "/v1/harness/models", Right::ModelRead),
    row(Method::GET, "/v1/harness/selection", Right::HealthRead),
    row(Method::PUT, "/v1/harness/selection", Right::SelectionManage),
    row(Method::DELETE, "/v1/harness/selection", Right::SelectionManage),
    row(Method::POST, "/v1/harness/credentials", Right::CredentialsManage),
    row(Method::DELETE, "/v1/harness/credentials", Right::CredentialsManage),
    row(Method::POST, "/v1/cluster/rotate-key", Right::CredentialsManage),
    row(Method::POST, "/v1/journal/backup", Right::JournalBackup),
    row(Method::GET, "/v1/journal/stats", Right::JournalRead),
    row(Method::GET, "/v1/harness/routing", Right::HealthRead),
    row(Method::GET, "/v1/tools", Right::HealthRead),
    row(Method::GET, "/v1/tools/{name}", Right::HealthRead),
    row(Method::POST, "/v1/tools/{name}/test", Right::ToolsManage),
    row(Method::GET, "/v1/nodes", Right::HealthRead),
    row(Method::POST, "/v1/nodes/{name}/drain", Right::NodesManage),
    row(Method::DELETE, "/v1/nodes/{name}/drain", Right::NodesManage),
    row(Method::POST, "/v1/nodes/{name}/fence", Right::NodesManage),
    row(Method::POST, "/v1/nodes/upgrade-schema", Right::NodesManage),
    row(Method::GET, "/v1/capabilities", Right::HealthRead),
    // An orchestrator has no key; these say alive or ready, and nothing else.
    open("/health"),
    open("/health/live"),
    open("/health/ready"),
    row(Method::GET, "/health/detailed", Right::HealthRead),
    row(Method::GET, "/metrics", Right::HealthRead),
];

/// What a route needs; none when it has no row, and then nobody may.
#[must_use]
pub fn need(method: &Method, path: &str) -> Option<Need> {
    // The whole of /v1 is mirrored under /api.
    let path = path.strip_prefix("/api").filter(|rest| rest.starts_with("/v1/")).unwrap_or(path);
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    ROUTES.iter().find(|row| row.method == *method && row.path == path).map(|row| row.need)
}

/// The pattern of a served route, for labels; an unknown one has none, so that a stranger can not make a new label.
#[must_use]
pub fn pattern(method: &Method, path: &str) -> Option<&'static str> {
    let path = path.strip_prefix("/api").filter(|rest| rest.starts_with("/v1/")).unwrap_or(path);
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    ROUTES.iter().find(|row| row.method == *method && row.path == path).map(|row| row.path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_route_has_one_row() {
        let rows: BTreeSet<_> = ROUTES.iter().map(|row| (row.method.as_str(), row.path)).collect();
        assert_eq!(rows.len(), ROUTES.len());
    }

    #[test]
    fn a_mirrored_route_needs_what_its_original_needs_and_an_unknown_one_is_nobodys() {
        let start = Some(Need::Right(Right::RunStart));
        assert_eq!(need(&Method::POST, "/v1/runs"), start);
        assert_eq!(need(&Method::POST, "/api/v1/runs"), start);
        assert_eq!(need(&Method::HEAD, "/health/live"), Some(Need::Nothing));
        for (method, path) in
            [(Method::PUT, "/v1/runs"), (Method::GET, "/api/metrics"), (Method::GET, "/v1")]
        {
            assert_eq!(need(&method, path), None, "{method} {path}");
        }
    }

    #[test]
    fn only_health_is_open() {
        let open = ROUTES.iter().filter(|row| row.need == Need::Nothing);
        assert!(open.map(|row| row.path).all(|path| path.starts_with("/health")));
    }
}
