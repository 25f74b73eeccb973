//! Connections that a pod's listening sockets have not accepted yet: CRIU dumps none of these.

use std::time::{Duration, Instant};

use crate::pod::Pod;
use crate::process::{proc, read};

/// State of a listening socket in `/proc/net/tcp` (`TCP_LISTEN`).
const LISTEN: &str = "0A";
/// How long programs get to accept what had come before others were kept away. Whoever does not is dumped without them.
const LIMIT: Duration = Duration::from_secs(3);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(10);

/// Does anything in the pod's network listen?
pub(super) fn listens(pod: &Pod) -> bool {
    tables(pod)
        .iter()
        .any(|table| queues(table).next().is_some())
}

/// Waits until all are accepted that have come, for some time. Nobody new gets in meanwhile.
pub(super) async fn accepted(pod: &Pod) {
    let begun = Instant::now();
    let waits = || {
        tables(pod)
            .iter()
            .any(|table| queues(table).any(|length| length > 0))
    };
    while waits() && begun.elapsed() < LIMIT {
        tokio::time::sleep(LOOK).await;
    }
}

fn tables(pod: &Pod) -> Vec<String> {
    let Some(network) = pod.network() else {
        return Vec::new();
    };
    let table = |name| read(&proc(network.pid).join(name)).unwrap_or_default();
    ["net/tcp", "net/tcp6"].map(table).into()
}

/// Lengths of the queues of listening sockets.
fn queues(table: &str) -> impl Iterator<Item = u64> {
    table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(3);
        let (state, queues) = (fields.next()?, fields.next()?);
        let (_, received) = queues.split_once(':')?;
        (state == LISTEN).then(|| u64::from_str_radix(received, 16).ok())?
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::path::Path;

    use super::*;

    #[test]
    fn what_is_not_accepted_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let _one = TcpStream::connect(address).expect("connected");
        let _two = TcpStream::connect(address).expect("connected");
        let port = format!(":{:04X} ", address.port());
        let own = || {
            let table = read(Path::new("/proc/self/net/tcp")).expect("it is there");
            let lines = table.lines().filter(|line| line.contains(&port));
            let head = "head\n".to_owned();
            let table = lines.fold(head, |text, line| format!("{text}{line}\n"));
            queues(&table).sum::<u64>()
        };
        assert_eq!(own(), 2);
        let _accepted = listener.accept().expect("one is there");
        assert_eq!(own(), 1);
        let _accepted = listener.accept().expect("one is there");
        assert_eq!(own(), 0);
    }
}
