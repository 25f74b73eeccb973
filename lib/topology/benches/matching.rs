//! `cargo bench -p rocferry-topology`: the matcher's cases under criterion.

mod cases;

use criterion::{Criterion, criterion_group, criterion_main};

fn matching(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("matching");
    group.sample_size(20);
    for case in cases::all() {
        group.bench_function(case.name, |bencher| bencher.iter(|| case.ask()));
    }
    group.finish();
}

criterion_group!(benches, matching);
criterion_main!(benches);
