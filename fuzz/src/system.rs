//! What holds of every system, wherever it was read from.

use std::collections::BTreeSet;

use rocferry_topology::{LinkKind, Node, NodeId, System, UserGpuId};

pub(crate) fn check(system: &System) {
    let order: Vec<NodeId> = system.nodes.iter().map(Node::id).collect();
    assert!(order.is_sorted_by(|a, b| a < b), "nodes out of order");
    assert!(system.masked.is_sorted_by(|a, b| a < b));
    assert!(system.masked.iter().all(|node| !order.contains(node)));
    let ids: BTreeSet<u32> = system.gpus().map(|gpu| gpu.id.get()).collect();
    assert_eq!(ids.len(), system.gpus().count(), "two GPUs with one id");
    assert!(!ids.contains(&0));
    for node in &system.nodes {
        for link in node.links() {
            let far = system.node(link.to);
            assert_eq!(link.valid, far.is_some());
            let back = far.is_some_and(|far| {
                let mut links = far.links().iter();
                links.any(|back| back.to == node.id() && back.kind == link.kind)
            });
            assert_eq!(link.bidirectional, back);
        }
    }
    let hives = system.hives();
    let mut members = BTreeSet::new();
    for node in hives.iter().flatten() {
        assert!(members.insert(*node), "in two hives");
        let gpu = system.node(*node).and_then(Node::as_gpu);
        let gpu = gpu.expect("hives hold GPUs alone");
        let mut links = gpu.links.iter();
        assert!(links.any(|link| link.kind == LinkKind::Xgmi && link.bidirectional));
    }
    assert!(hives.iter().all(|hive| hive.len() >= 2));
    let checkpoint = system.rename(|gpu| Some(UserGpuId(gpu.id.get())));
    assert_eq!(checkpoint.hives(), hives);
    for (before, after) in system.gpus().zip(checkpoint.gpus()) {
        assert_eq!(before.valid_link_count(), after.valid_link_count());
    }
}
