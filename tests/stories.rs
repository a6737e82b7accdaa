//! Stories across crates, one file each: real processes, real sockets, the scripted model, no sleeps.

mod byte_flips;
mod chat;
mod cluster;
mod cluster_init;
mod cluster_model;
mod contract;
mod crash;
mod disk_full;
mod families;
mod hosts;
mod kill_loop;
mod leases;
mod live_across;
mod nats_deploy;
mod nats_servers;
mod node_story;
mod nodes;
mod outage;
mod probe;
mod routes;
mod runs;
mod shells;
mod store_model;
mod takeover;
mod tidy;
mod views_on_nats;
