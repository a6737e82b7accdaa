//! The table of routes that stands in `deploy/`.

use super::*;

#[test]
fn the_table_file_in_deploy_is_valid() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/model_routes.example.json");
    let world = World::new().variable("PITON_MODEL_ROUTES_PATH", path);
    let environment = Environment::of(world.variables.clone());
    let every: Vec<Known<'_>> = registry::providers()
        .map(|one| Known { id: one.id, aliases: one.aliases, keys: one.key_env, regions: &[] })
        .collect();
    let sources = Sources {
        flags: &world.flags,
        environment: &environment,
        known: &every,
        here: world.folder.path(),
    };
    assert!(!load(&sources).unwrap().config.routes.file.is_empty());
}
