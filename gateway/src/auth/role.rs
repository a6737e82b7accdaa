//! What each role may do. Roles are sets of rights, not a ladder: an approver answers holds and starts nothing, a
//! runner starts runs and answers no holds, so that nobody approves what he asked for.

use events::key::Role;
use std::fmt;

/// Something that a caller may be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// See which models answer.
    ModelRead,
    /// Ask a model.
    ChatWrite,
    /// See runs, what was said in them and what they cost.
    RunRead,
    /// Start a run.
    RunStart,
    /// Stop a run.
    RunStop,
    /// Start a run that nobody attends: what would be held is refused, or left to a server.
    RunUnattended,
    /// Answer what a run holds for a person.
    HoldAnswer,
    /// Read the stored events as they are, and have them checked.
    JournalRead,
    /// Copy the whole journal.
    JournalBackup,
    /// See totals.
    UsageRead,
    /// See the node's state in detail, and its metrics.
    HealthRead,
    /// Issue, list and revoke keys.
    KeysManage,
    /// Drain and fence nodes.
    NodesManage,
    /// Add, rotate and remove provider credentials, and rotate the cluster's key.
    CredentialsManage,
    /// Set and remove budgets.
    BudgetsManage,
    /// Select the model that serves what has no route.
    SelectionManage,
    /// Call a tool outside any run, and rule about tools.
    ToolsManage,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ModelRead => "list models",
            Self::ChatWrite => "ask a model",
            Self::RunRead => "read runs",
            Self::RunStart => "start runs",
            Self::RunStop => "stop runs",
            Self::RunUnattended => "start unattended runs",
            Self::HoldAnswer => "answer holds",
            Self::JournalRead => "read the journal",
            Self::JournalBackup => "back up the journal",
            Self::UsageRead => "read usage",
            Self::HealthRead => "read the node's health",
            Self::KeysManage => "manage keys",
            Self::NodesManage => "manage nodes",
            Self::CredentialsManage => "manage provider credentials",
            Self::BudgetsManage => "manage budgets",
            Self::SelectionManage => "select the model",
            Self::ToolsManage => "manage tools",
        })
    }
}

const READER: [Right; 5] =
    [Right::ModelRead, Right::RunRead, Right::JournalRead, Right::UsageRead, Right::HealthRead];
const RUNNER: [Right; 3] = [Right::ChatWrite, Right::RunStart, Right::RunStop];
const APPROVER: [Right; 1] = [Right::HoldAnswer];
const OPERATOR: [Right; 4] =
    [Right::RunUnattended, Right::JournalBackup, Right::BudgetsManage, Right::SelectionManage];
const ADMIN: [Right; 4] =
    [Right::KeysManage, Right::NodesManage, Right::CredentialsManage, Right::ToolsManage];

/// Whether a role has a right.
#[must_use]
pub fn may(role: Role, right: Right) -> bool {
    let sets: &[&[Right]] = match role {
        Role::Reader => &[&READER],
        Role::Runner => &[&READER, &RUNNER],
        Role::Approver => &[&READER, &APPROVER],
        Role::Operator => &[&READER, &RUNNER, &APPROVER, &OPERATOR],
        Role::Admin => &[&READER, &RUNNER, &APPROVER, &OPERATOR, &ADMIN],
    };
    sets.iter().any(|set| set.contains(&right))
}

/// Every role, from the one that may least.
pub const ROLES: [Role; 5] =
    [Role::Reader, Role::Runner, Role::Approver, Role::Operator, Role::Admin];

/// The word for a role, on the wire and on the command line.
#[must_use]
pub const fn name(role: Role) -> &'static str {
    match role {
        Role::Reader => "reader",
        Role::Runner => "runner",
        Role::Approver => "approver",
        Role::Operator => "operator",
        Role::Admin => "admin",
    }
}

/// The role that a word names.
#[must_use]
pub fn named(word: &str) -> Option<Role> {
    ROLES.into_iter().find(|role| name(*role) == word)
}

/// The roles that have a right, as words for a message.
#[must_use]
pub fn who_may(right: Right) -> String {
    let roles: Vec<&str> = ROLES.into_iter().filter(|role| may(*role, right)).map(name).collect();
    roles.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const RIGHTS: [Right; 16] = [
        Right::ModelRead,
        Right::ChatWrite,
        Right::RunRead,
        Right::RunStart,
        Right::RunStop,
        Right::RunUnattended,
        Right::HoldAnswer,
        Right::JournalRead,
        Right::JournalBackup,
        Right::UsageRead,
        Right::HealthRead,
        Right::KeysManage,
        Right::NodesManage,
        Right::CredentialsManage,
        Right::BudgetsManage,
        Right::SelectionManage,
    ];

    fn rights(role: Role) -> BTreeSet<Right> {
        RIGHTS.into_iter().filter(|right| may(role, *right)).collect()
    }

    #[test]
    fn roles_hold_one_another_as_sets() {
        let [reader, runner, approver, operator, admin] = ROLES.map(rights);
        assert!(reader.is_subset(&runner) && reader.is_subset(&approver));
        assert!(runner.is_subset(&operator) && approver.is_subset(&operator));
        assert!(operator.is_subset(&admin) && operator != admin);
        assert_eq!(admin.len(), RIGHTS.len());
        assert!(!runner.contains(&Right::HoldAnswer) && !approver.contains(&Right::RunStart));
    }

    #[test]
    fn a_role_has_one_word() {
        for role in ROLES {
            assert_eq!(named(name(role)), Some(role));
        }
        assert_eq!(named("root"), None);
        assert_eq!(who_may(Right::RunStart), "runner, operator, admin");
    }
}
