//! The routes, a file for each resource. A route without a row in [`crate::auth`]'s table is refused.

pub mod approvals;
pub mod artifacts;
pub mod budgets;
pub mod chat;
pub mod credentials;
pub mod embeddings;
pub mod gates;
pub mod grants;
pub mod harness;
pub mod health;
pub mod journal;
pub mod keys;
pub mod messages;
pub mod models;
pub mod nodes;
pub mod providers;
pub mod responses;
pub mod runs;
pub mod search;
pub mod selection;
pub mod sessions;
pub mod spec;
pub mod tool_policy;
pub mod tools;
pub mod turn;

use crate::app::App;
use axum::Router;

/// All of them.
pub fn routes() -> Router<App> {
    Router::new()
        .merge(approvals::routes())
        .merge(artifacts::routes())
        .merge(budgets::routes())
        .merge(chat::routes())
        .merge(harness::routes())
        .merge(credentials::routes())
        .merge(embeddings::routes())
        .merge(gates::routes())
        .merge(grants::routes())
        .merge(health::routes())
        .merge(journal::routes())
        .merge(keys::routes())
        .merge(messages::routes())
        .merge(models::routes())
        .merge(nodes::routes())
        .merge(providers::routes())
        .merge(responses::routes())
        .merge(runs::routes())
        .merge(search::routes())
        .merge(selection::routes())
        .merge(sessions::routes())
        .merge(tool_policy::routes())
        .merge(tools::routes())
}
