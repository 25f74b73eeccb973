//! Short texts for sets of numbers.

/// `2-5,7` for numbers in ascending order.
pub(super) fn ranges(numbers: impl IntoIterator<Item = u32>) -> String {
    let mut items: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match items.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => items.push((number, number)),
        }
    }
    let items: Vec<String> = items
        .into_iter()
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        })
        .collect();
    items.join(",")
}

/// `1 GPU`, `2 GPUs`.
pub(super) fn plural(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_ranges() {
        for (numbers, text) in [
            (&[][..], ""),
            (&[7], "7"),
            (&[2, 3, 4, 5, 7], "2-5,7"),
            (&[0, u32::MAX - 1, u32::MAX], "0,4294967294-4294967295"),
        ] {
            assert_eq!(ranges(numbers.iter().copied()), text);
        }
    }
}
