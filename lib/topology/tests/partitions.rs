//! SDMA queues of a partition of a card go back only to a partition with the same number.

use rocferry_topology::{
    ActualGpuId, Checks, CpuNode, GpuNode, Link, LinkKind, Mapping, Matcher, Mode, Node, NodeId,
    System, UserGpuId,
};

/// A CPU and one GPU for each id, on partitions of cards as `location_id` tells it.
fn system(gpus: &[(u32, u32)]) -> System {
    let cpu = Node::Cpu(CpuNode {
        node: NodeId(0),
        cpu_cores: 1,
        links: vec![],
    });
    let gpus = (1..).zip(gpus).map(|(node, (id, location))| {
        Node::Gpu(GpuNode {
            node: NodeId(node),
            id: ActualGpuId(*id),
            location_id: Some(*location),
            links: vec![Link::new(LinkKind::Pcie, NodeId(0))],
            ..GpuNode::default()
        })
    });
    System::new(std::iter::once(cpu).chain(gpus).collect(), vec![])
}

/// Two GPUs, 0xa1 and 0xa2, with these numbers noted.
fn checkpoint(noted: &[(u32, u32)]) -> Matcher {
    let mut source =
        system(&[(0xa1, 0x500), (0xa2, 0x501)]).rename(|gpu| Some(UserGpuId(gpu.id.get())));
    source.sdma_partitions = noted
        .iter()
        .map(|(gpu, index)| (UserGpuId(*gpu), *index))
        .collect();
    Matcher::new(&source, Checks::default()).expect("two GPUs")
}

fn map(matcher: &Matcher, system: &System, mode: Mode) -> Result<Vec<u32>, Vec<String>> {
    let usable: Vec<_> = system.gpus().map(|gpu| gpu.id).collect();
    let actual = |mapping: Mapping| mapping.iter().map(|pair| pair.1.get()).collect();
    matcher
        .map(system, &usable, mode)
        .map(actual)
        .map_err(|rejection| rejection.lines())
}

#[test]
fn each_goes_to_its_number() {
    let matcher = checkpoint(&[(0xa1, 0), (0xa2, 1)]);
    // Both notations; numbers of the same card and of two.
    for places in [[0x601, 0x600], [0x1000_0600, 0x600], [0x701, 0x600]] {
        let swapped = system(&[(0xb1, places[0]), (0xb2, places[1])]);
        assert_eq!(
            map(&matcher, &swapped, Mode::All),
            Ok(vec![0xb2, 0xb1]),
            "{places:x?}"
        );
    }
    // Even the same ids: they tell nothing about the place.
    let same_ids = system(&[(0xa1, 0x601), (0xa2, 0x600)]);
    assert_eq!(map(&matcher, &same_ids, Mode::All), Ok(vec![0xa2, 0xa1]));
}

#[test]
fn a_choice_takes_the_number_from_any_card() {
    let matcher = checkpoint(&[(0xa1, 5), (0xa2, 2)]);
    let node = system(&[(0xb1, 0x601), (0xb2, 0x602), (0xb3, 0x705), (0xb4, 0x702)]);
    assert_eq!(map(&matcher, &node, Mode::Subset), Ok(vec![0xb3, 0xb2]));
}

#[test]
fn a_number_that_is_not_here_is_the_reason() {
    let matcher = checkpoint(&[(0xa1, 0), (0xa2, 1)]);
    let here = system(&[(0xb1, 0x600), (0xb2, 0x602)]);
    let reason = [
        "GPU 0x00a2 cannot use 0x00b1: partition_index differs: checkpoint 1, here 0",
        "GPU 0x00a2 cannot use 0x00b2: partition_index differs: checkpoint 1, here 2",
    ];
    assert_eq!(
        map(&matcher, &here, Mode::All),
        Err(reason.map(str::to_owned).to_vec())
    );
    let usable: Vec<_> = here.gpus().map(|gpu| gpu.id).collect();
    assert!(matcher.switches(&here, &usable, Mode::All).is_empty());
}

/// Without SDMA queues, in images of the C plugin, and where the machine does not tell.
#[test]
fn what_was_not_noted_is_not_compared() {
    let free = checkpoint(&[]);
    let one = checkpoint(&[(0xa2, 1)]);
    let here = system(&[(0xb1, 0x607), (0xb2, 0x601)]);
    assert_eq!(map(&free, &here, Mode::All), Ok(vec![0xb1, 0xb2]));
    assert_eq!(map(&one, &here, Mode::All), Ok(vec![0xb1, 0xb2]));
    let elsewhere = system(&[(0xb1, 0x601), (0xb2, 0x607)]);
    assert_eq!(map(&free, &elsewhere, Mode::All), Ok(vec![0xb1, 0xb2]));
    assert_eq!(map(&one, &elsewhere, Mode::All), Ok(vec![0xb2, 0xb1]));
    let mut silent = elsewhere;
    for node in &mut silent.nodes {
        if let Node::Gpu(gpu) = node {
            gpu.location_id = None;
        }
    }
    assert_eq!(map(&one, &silent, Mode::All), Ok(vec![0xb1, 0xb2]));
}

#[test]
fn renaming_takes_the_numbers_along() {
    let mut source = system(&[(0xa1, 0x500), (0xa2, 0x501)]);
    source.sdma_partitions = vec![(ActualGpuId(0xa1), 0), (ActualGpuId(0xa2), 1)];
    let renamed = source.rename(|gpu| (gpu.id.get() == 0xa2).then_some(UserGpuId(7)));
    assert_eq!(renamed.sdma_partitions, [(UserGpuId(7), 1)]);
}
