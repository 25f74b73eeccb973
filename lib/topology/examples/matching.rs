//! Times the matcher's cases on one core and prints a JSON object a line (`cargo xtask bench matching`); all
//! of them, or those named.

#[path = "../benches/cases/mod.rs"]
mod cases;

use std::time::{Duration, Instant};

/// Each case is asked for at least this long, and at least `ROUNDS` times.
const TIME: Duration = Duration::from_millis(1500);
const ROUNDS: usize = 11;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let asked_for = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    for case in cases::all().into_iter().filter(|case| asked_for(case.name)) {
        case.ask();
        let (start, mut times) = (Instant::now(), Vec::new());
        while times.len() < ROUNDS || start.elapsed() < TIME {
            let asked = Instant::now();
            case.ask();
            times.push(asked.elapsed());
        }
        times.sort_unstable();
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let median = micros(times[times.len() / 2]);
        let max = micros(times[times.len() - 1]);
        println!(
            r#"{{"bench":"matching","case":"{}","median_us":{median:.1},"max_us":{max:.1},"rounds":{},"destinations":{},"fitting":{}}}"#,
            case.name,
            times.len(),
            case.destinations.len(),
            case.expected,
        );
    }
}
