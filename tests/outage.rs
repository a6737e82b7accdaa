//! A node whose disk is full for a while: it says so, parks nobody, loses nothing that it acknowledged, and goes on by
//! itself when there is space again.

use crate::disk_full::{Disk, seconds};
use reqwest::Method;
use serde_json::json;
use tests::Node;
use tests::process::{answer, json as body, wait_for};
use tokio::time::{Instant, sleep_until};

#[tokio::test]
async fn a_node_on_a_full_disk_refuses_clearly_and_goes_on_when_there_is_space() {
    let Some(disk) = Disk::mount() else {
        println!(
            "not run: no file system can be mounted here (the store's own story injects the answers)"
        );
        return;
    };
    let data = disk.folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let node = Node::demo(&data).await;
    let mut acknowledged = vec![];
    for _ in 0..5 {
        acknowledged.push(node.start_run(&json!({"input": "both: rope"})).await);
    }
    for run in &acknowledged {
        node.ended(run).await;
    }
    // At work while the disk fills: its answer comes when nothing can be written.
    acknowledged.push(node.start_run(&json!({"input": "slow 40"})).await);
    disk.fill();
    let until = Instant::now() + seconds();
    let refused = wait_for("a new run is refused", || async {
        let asked = body(node.ask(Method::POST, "/v1/runs"), &json!({"input": "hello"}));
        let got = asked.send().await.ok()?;
        (!got.status().is_success()).then_some(got)
    })
    .await;
    assert!([429, 503, 504].contains(&refused.status().as_u16()), "{}", refused.status());
    wait_for("health says so", || async {
        (node.get("/health/ready").await.0 == 503).then_some(())
    })
    .await;
    // What was acknowledged can be read all the while.
    let first = &acknowledged[0];
    assert_eq!(node.get(&format!("/v1/runs/{first}")).await.0, 200);
    sleep_until(until).await;
    disk.free();
    wait_for("it is ready again", || async {
        (node.get("/health/ready").await.0 == 200).then_some(())
    })
    .await;
    acknowledged.push(node.start_run(&json!({"input": "hello again"})).await);
    for run in &acknowledged {
        assert_eq!(node.ended(run).await["outcome"], "completed", "{run}");
    }
    let (_, health) = answer(node.ask(Method::GET, "/health/detailed")).await;
    assert_eq!(health["actors"]["parked"], json!([]), "{health}");
    // The story's journal is audited before its disk is gone.
    drop(node);
}
