//! Temporary: runs the stories of the tests crate while the other crates do not compile.
mod contract;
mod hosts;
