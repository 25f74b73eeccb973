//! The notation itself.

use crate::trees;

#[test]
fn the_notation_is_checked() {
    let expand = |text: &str| trees::expand(text);
    let files =
        expand("# x\n\n== a/[3-4]/b/[0-1]\nv {n*10+k} {i}{j} {[7 8][i>=1]} {(1-4)/1%2}\n== c\n")
            .expect("notation");
    let found: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| {
            let text = std::str::from_utf8(text.as_deref().expect("readable")).expect("text");
            (path.to_str().expect("path"), text)
        })
        .collect();
    let expected = [
        ("a/3/b/0", "v 30 00 7 -1\n"),
        ("a/3/b/1", "v 31 01 7 -1\n"),
        ("a/4/b/0", "v 40 10 8 -1\n"),
        ("a/4/b/1", "v 41 11 8 -1\n"),
        ("c", ""),
    ];
    assert_eq!(found, expected);
    for (text, message) in [
        ("x\n", "line 1 belongs to no file"),
        ("== a/[1-\n", "block at 1: a range that does not end"),
        ("== [1]\n", "block at 1: a range without -"),
        ("== [a-2]\n", "block at 1: no number: a"),
        ("== [1-2]/[1-2]/[1-2]\n", "block at 1: more than two ranges"),
        ("== a\n{1\n", "block at 1: {1: { without }"),
        ("== a\n{n}\n", "block at 1: {n}: no variable n here"),
        (
            "\n== a\n{1/0}\n",
            "block at 2: {1/0}: division by zero, or too large",
        ),
        (
            "== a\n{[1 2][2]}\n",
            "block at 1: {[1 2][2]}: no element 2 in a list of 2",
        ),
        ("== a\n{1 2}\n", "block at 1: {1 2}: 2 in {1 2}"),
        ("== a\n{1=2}\n", "block at 1: {1=2}: a single ="),
        ("== a\n{(1}\n", "block at 1: {(1}: expected ), found None"),
        (
            "== a\n{1+}\n",
            "block at 1: {1+}: an expression that ends early",
        ),
    ] {
        assert_eq!(expand(text).expect_err("refused"), message);
    }
}
