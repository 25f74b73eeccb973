//! `rocferry-agent` as users run it.

mod archives;
mod check;
mod field_reports;
mod hostile;
mod image;
mod install;
mod machines;
mod node;
mod pods;
mod processes;
mod run;
mod serve;
mod show;
mod store_refusals;
#[expect(
    dead_code,
    reason = "these are read from another folder than lib/topology's tests expect"
)]
#[path = "../../../lib/topology/tests/trees/mod.rs"]
mod trees;

/// The manual quotes the program: what it quotes is what is printed.
#[test]
fn the_manual_is_true() {
    let manual = include_str!("../../../docs/topology.md");
    for golden in [
        include_str!("../golden/show-mi300x-spx.txt"),
        include_str!("../golden/check-fits.txt"),
        include_str!("../golden/check-firmware.txt"),
    ] {
        assert!(manual.contains(golden), "{golden}");
    }
    let cards: Vec<&str> = include_str!("../golden/show-mi300x-cpx.txt")
        .lines()
        .collect();
    let header = cards
        .iter()
        .position(|line| line.starts_with("NODE"))
        .expect("header");
    assert!(manual.contains(&cards[header..header + 3].join("\n")));
}
