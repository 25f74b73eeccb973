//! Stands between a client and a server, and does to requests what networks and servers do.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A request as far as rules look at it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// With the query.
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: HashMap<String, String>,
    /// How many requests came before this one.
    pub(crate) number: usize,
}

/// What is done to a request.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    /// It reaches the server, and its answer the client.
    Pass,
    /// The same, without these headers.
    PassWithout(&'static [&'static str]),
    /// It never reaches the server, which is made to answer this: status, headers, body.
    Answer(u16, Vec<(&'static str, String)>, String),
    /// It reaches the server, and the connection ends before the answer.
    LoseAnswer,
    /// So many bytes of its body reach the server, then both connections end.
    CutBody(usize),
    /// So many bytes of the answer reach the client, then both connections end.
    CutAnswer(u64),
}

type Rules = dyn Fn(&Request) -> Rule + Send + Sync;

/// A running proxy. Each connection carries one request.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Request>>>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// Starts one before the server at `HOST:PORT`.
    pub(crate) async fn start(
        server: &str,
        rules: impl Fn(&Request) -> Rule + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bind");
        let address = listener.local_addr().expect("address");
        let seen: Arc<Mutex<Vec<Request>>> = Arc::default();
        let (rules, server): (Arc<Rules>, String) = (Arc::new(rules), server.to_owned());
        let log = seen.clone();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (rules, log, server) = (rules.clone(), log.clone(), server.clone());
                tokio::spawn(async move {
                    // A connection that one side ends early is what this is for.
                    let _ = carry(client, &server, &*rules, &log).await;
                });
            }
        });
        Self {
            address,
            seen,
            task,
        }
    }

    /// The requests so far.
    pub(crate) fn seen(&self) -> Vec<Request> {
        self.seen.lock().expect("log").clone()
    }

    /// How many of them had this method and this in their path.
    pub(crate) fn count(&self, method: &str, part: &str) -> usize {
        let seen = self.seen();
        seen.iter()
            .filter(|request| request.method == method && request.path.contains(part))
            .count()
    }
}

async fn carry(
    mut client: TcpStream,
    server: &str,
    rules: &Rules,
    log: &Mutex<Vec<Request>>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    let end = loop {
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if client.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    };
    let rest = head.split_off(end + 4);
    let text = String::from_utf8_lossy(&head[..end]).into_owned();
    let request = {
        let mut log = log.lock().expect("log");
        let request = parse(&text, log.len());
        log.push(request.clone());
        request
    };
    let length: u64 = request
        .headers
        .get("content-length")
        .and_then(|length| length.parse().ok())
        .unwrap_or_default();
    let missing = length.saturating_sub(rest.len() as u64);
    let rule = rules(&request);
    if let Rule::Answer(status, headers, body) = rule {
        copy(&mut (&mut client).take(missing), &mut tokio::io::sink()).await?;
        let mut answer = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            answer.push_str(&format!("{name}: {value}\r\n"));
        }
        answer.push_str("Connection: close\r\n\r\n");
        client.write_all(answer.as_bytes()).await?;
        client.write_all(body.as_bytes()).await?;
        return client.shutdown().await;
    }
    let without: &[&str] = match rule {
        Rule::PassWithout(without) => without,
        _ => &[],
    };
    let mut upstream = TcpStream::connect(server).await?;
    upstream
        .write_all(head_for_server(&text, without).as_bytes())
        .await?;
    if let Rule::CutBody(bytes) = rule {
        let first = &rest[..rest.len().min(bytes)];
        upstream.write_all(first).await?;
        let more = missing.min((bytes - first.len()) as u64);
        copy(&mut (&mut client).take(more), &mut upstream).await?;
        upstream.flush().await?;
        // What has been sent is to arrive before the end does.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        return Ok(());
    }
    upstream.write_all(&rest).await?;
    copy(&mut (&mut client).take(missing), &mut upstream).await?;
    match rule {
        Rule::LoseAnswer => {
            copy(&mut upstream, &mut tokio::io::sink()).await?;
        }
        Rule::CutAnswer(bytes) => {
            copy(&mut upstream.take(bytes), &mut client).await?;
        }
        _ => {
            copy(&mut upstream, &mut client).await?;
            client.shutdown().await?;
        }
    }
    Ok(())
}

fn parse(head: &str, number: usize) -> Request {
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (words.next(), words.next());
    Request {
        method: method.unwrap_or_default().to_owned(),
        path: path.unwrap_or_default().to_owned(),
        headers: lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect(),
        number,
    }
}

/// The same, but that the connection ends with the answer.
fn head_for_server(head: &str, without: &[&str]) -> String {
    let mut text: String = head
        .split("\r\n")
        .filter(|line| {
            let name = line.split(':').next().unwrap_or_default();
            let name = name.to_ascii_lowercase();
            name != "connection" && !without.contains(&name.as_str())
        })
        .map(|line| format!("{line}\r\n"))
        .collect();
    text.push_str("Connection: close\r\n\r\n");
    text
}
