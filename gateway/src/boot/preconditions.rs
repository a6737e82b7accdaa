//! What must hold before a tool call on this node: its hooks, what it says of gates, and the ways to their owners.

use crate::config::Config;
use crate::directory::Directory;
use actors::bus::Bus;
use actors::clock::Clock;
use actors::directory::Serves;
use actors::hooks::Hooks;
use actors::host::Hosted;
use actors::preconditions::{Preconditions, Way};
use events::project::Project;

pub(super) fn of(config: &Config, bus: &Bus<Directory>, clock: &Clock) -> Preconditions {
    let told = &config.preconditions;
    let environment = told.environment.clone();
    Preconditions {
        hooks: Hooks::new(told.hooks.clone(), config.data_dir.clone(), environment),
        surfaces: told.surfaces.clone(),
        gates: way(bus),
        grants: way(bus),
        clock: clock.clone(),
    }
}

fn way<A>(bus: &Bus<Directory>) -> Way<A>
where
    A: Hosted<Id = Project>,
    Directory: Serves<A>,
{
    let bus = bus.clone();
    Way::new(move |project| {
        let bus = bus.clone();
        Box::pin(async move { bus.observe::<A>(project).await })
    })
}
