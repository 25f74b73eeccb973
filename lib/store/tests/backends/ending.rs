//! The servers of these tests: that they end whatever happens, and what is said when they cannot be had.

use super::child;
use crate::servers;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

#[test]
fn servers_end_with_a_test_that_panics_and_with_a_process_that_is_killed() {
    const NAME: &str =
        "ending::servers_end_with_a_test_that_panics_and_with_a_process_that_is_killed";
    if let Some(how) = child::argument() {
        let (s3, registry) = (servers::s3(), servers::registry());
        println!(
            "\nlistens {} {} {}",
            s3.endpoint().trim_start_matches("http://"),
            registry.host(),
            registry.data_dir().display()
        );
        if how == "panic" {
            panic!("as tests do");
        }
        let killed =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        panic!("{killed:?}");
    }
    for how in ["panic", "kill"] {
        let output = child::output(NAME, how, &[]);
        assert!(!output.status.success());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix("listens "));
        let line = line.unwrap_or_else(|| panic!("{text}"));
        let words: Vec<&str> = line.split(' ').collect();
        for address in &words[..2] {
            let mut waited = 0;
            while TcpStream::connect(address).is_ok() {
                assert!(waited < 300, "{how}: {address} is still there");
                waited += 1;
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        if how == "panic" {
            assert!(!Path::new(words[2]).exists(), "its data is gone as well");
        }
    }
}

#[test]
fn without_network_and_cache_it_is_said_what_is_missing() {
    const NAME: &str = "ending::without_network_and_cache_it_is_said_what_is_missing";
    if child::argument().is_some() {
        let servers = servers::servers();
        for program in [servers.registry_program(), servers.s3_program()] {
            println!("\nmissing {:#}", program.expect_err("cannot be had"));
        }
        return;
    }
    let empty = tempfile::tempdir().expect("dir");
    let path = |name: &str| empty.path().join(name).display().to_string();
    let wrapper = [
        format!("ROCFERRY_CACHE={}", path("cache")),
        format!("GOMODCACHE={}", path("modules")),
    ];
    let mut wrapper: Vec<String> = wrapper.into();
    wrapper.extend(child::alone(&["--net"]));
    let output = child::output(NAME, "x", &wrapper);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    let said: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("missing "))
        .collect();
    let wanted = [
        "docker-registry comes from a mirror of Debian",
        "versitygw comes from the Go module proxy (GOPROXY)",
    ];
    assert_eq!(said.len(), wanted.len(), "{text}");
    for (line, wanted) in said.into_iter().zip(wanted) {
        for words in [wanted, "`cargo xtask servers build` keeps both"] {
            assert!(line.contains(words), "{words:?} is not in: {line}");
        }
    }
}
