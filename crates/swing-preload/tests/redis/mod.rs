//! A client of Redis that stays connected, and one session of it: pipelines, transactions, scripts,
//! subscriptions, large values, an append-only file that is rewritten.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A connection that speaks RESP, version 2.
struct Client {
    stream: BufReader<UnixStream>,
}

/// What a command gave.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reply {
    Nothing,
    Text(Vec<u8>),
    Number(i64),
    List(Vec<Reply>),
    Error(String),
}

fn text(text: &str) -> Reply {
    Reply::Text(text.into())
}

impl Client {
    fn connect(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// Sends a command without waiting for its reply.
    fn send(&mut self, words: &[&[u8]]) {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend(format!("${}\r\n", word.len()).bytes());
            request.extend_from_slice(word);
            request.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&request).unwrap();
    }

    fn receive(&mut self) -> Reply {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let rest = line[1..].trim_end().to_owned();
        match (line.as_bytes()[0], rest.parse::<i64>()) {
            (b'+', _) => Reply::Text(rest.into()),
            (b'-', _) => Reply::Error(rest),
            (b':', Ok(number)) => Reply::Number(number),
            (b'$' | b'*', Ok(-1)) => Reply::Nothing,
            (b'$', Ok(len)) => {
                let mut bytes = vec![0; len as usize + 2];
                self.stream.read_exact(&mut bytes).unwrap();
                assert!(bytes.ends_with(b"\r\n"));
                bytes.truncate(len as usize);
                Reply::Text(bytes)
            }
            (b'*', Ok(len)) => Reply::List((0..len).map(|_| self.receive()).collect()),
            other => panic!("{other:?} is no reply"),
        }
    }

    fn call(&mut self, words: &[&str]) -> Reply {
        self.send(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
        self.receive()
    }
}

/// Works for a while like a program that keeps its connection; every reply is checked.
pub fn session(socket: &Path) {
    let mut client = Client::connect(socket);
    for round in 0..4 {
        pipeline(&mut client, round);
        transaction(&mut client, round);
        script(&mut client);
        messages(&mut client, socket);
        large_values(&mut client, round);
        collections(&mut client);
    }
    append_only_file(&mut client);
}

fn pipeline(client: &mut Client, round: u64) {
    const MANY: u64 = 2000;
    let pair = |i: u64| (format!("session:{i}"), format!("{:0>width$}", i + round, width = 40));
    for (key, value) in (0..MANY).map(pair) {
        client.send(&[b"SET", key.as_bytes(), value.as_bytes()]);
        client.send(&[b"GET", key.as_bytes()]);
    }
    for (_, value) in (0..MANY).map(pair) {
        assert_eq!((client.receive(), client.receive()), (text("OK"), text(&value)));
    }
}

fn transaction(client: &mut Client, round: u64) {
    assert_eq!(client.call(&["WATCH", "session:count"]), text("OK"));
    assert_eq!(client.call(&["MULTI"]), text("OK"));
    for _ in 0..10 {
        assert_eq!(client.call(&["INCR", "session:count"]), text("QUEUED"));
    }
    let counts = (1..=10).map(|i| Reply::Number((10 * round + i) as i64));
    assert_eq!(client.call(&["EXEC"]), Reply::List(counts.collect()));
    let wrong = client.call(&["LPUSH", "session:count", "x"]);
    assert!(matches!(&wrong, Reply::Error(why) if why.starts_with("WRONGTYPE")), "{wrong:?}");
}

fn script(client: &mut Client) {
    let code = "local t = {} for i = 1, tonumber(ARGV[1]) do t[i] = i * i end \
                redis.call('DEL', KEYS[1]) \
                for i = 1, #t do redis.call('RPUSH', KEYS[1], t[i]) end return #t";
    assert_eq!(client.call(&["EVAL", code, "1", "session:squares", "500"]), Reply::Number(500));
    assert_eq!(client.call(&["LINDEX", "session:squares", "-1"]), text("250000"));
}

fn messages(client: &mut Client, socket: &Path) {
    let mut other = Client::connect(socket);
    let subscribed = [text("subscribe"), text("news"), Reply::Number(1)];
    assert_eq!(other.call(&["SUBSCRIBE", "news"]), Reply::List(subscribed.into()));
    for i in 0..50 {
        let word = format!("message {i}");
        assert_eq!(client.call(&["PUBLISH", "news", &word]), Reply::Number(1));
        let message = [text("message"), text("news"), text(&word)];
        assert_eq!(other.receive(), Reply::List(message.into()));
    }
}

fn large_values(client: &mut Client, round: u64) {
    let large: Vec<u8> = (0..5 << 20).map(|i: u64| (i * 7 + round) as u8).collect();
    client.send(&[b"SET", b"session:large", &large]);
    assert_eq!(client.receive(), text("OK"));
    client.send(&[b"APPEND", b"session:large", &large]);
    assert_eq!(client.receive(), Reply::Number(2 * large.len() as i64));
    client.send(&[b"GET", b"session:large"]);
    assert_eq!(client.receive(), Reply::Text([&large[..], &large[..]].concat()));
    // Freed by another thread of the server.
    assert_eq!(client.call(&["UNLINK", "session:large"]), Reply::Number(1));
}

fn collections(client: &mut Client) {
    client.call(&["DEL", "session:scores", "session:log", "session:fields"]);
    for i in 0..300 {
        let (score, member) = (format!("{}", (i * 37) % 300), format!("member {i}"));
        assert_eq!(client.call(&["ZADD", "session:scores", &score, &member]), Reply::Number(1));
        client.call(&["HSET", "session:fields", &member, &score]);
        client.call(&["XADD", "session:log", "MAXLEN", "100", "*", "score", &score]);
    }
    let first = client.call(&["ZRANGE", "session:scores", "0", "1"]);
    assert_eq!(first, Reply::List(vec![text("member 0"), text("member 73")]));
    assert_eq!(client.call(&["HLEN", "session:fields"]), Reply::Number(300));
    assert_eq!(client.call(&["XLEN", "session:log"]), Reply::Number(100));
}

/// A child of the server rewrites the file while the server goes on.
fn append_only_file(client: &mut Client) {
    assert_eq!(client.call(&["CONFIG", "SET", "appendonly", "yes"]), text("OK"));
    let begun = Instant::now();
    loop {
        client.call(&["INCR", "session:count"]);
        let Reply::Text(info) = client.call(&["INFO", "persistence"]) else { panic!("no info") };
        let info = String::from_utf8_lossy(&info).into_owned();
        if info.contains("aof_enabled:1") && info.contains("aof_rewrite_in_progress:0") {
            assert!(info.contains("aof_last_bgrewrite_status:ok"), "{info}");
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "the file is never rewritten");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(client.call(&["CONFIG", "SET", "appendonly", "no"]), text("OK"));
}
