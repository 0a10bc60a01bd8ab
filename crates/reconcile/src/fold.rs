//! Digests of ranges, made into that of all.

use change::comparable::{Digest, hex};
use md5::{Digest as _, Md5};

/// The digest of ranges that follow on each other. An empty range counts for nothing.
pub(crate) fn fold<'a>(digests: impl IntoIterator<Item = &'a Digest>) -> Digest {
    let (mut rows, mut sum, mut ordered) = (0, 0, Md5::new());
    for digest in digests.into_iter().filter(|digest| digest.rows > 0) {
        rows += digest.rows;
        sum += digest.sum;
        ordered.update(&digest.ordered);
    }
    Digest { rows, sum, ordered: hex(&ordered.finalize()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_ranges_counts_and_an_empty_one_does_not() {
        let digest = |rows, ordered: &str| Digest { rows, sum: i128::from(rows) - 3, ordered: ordered.to_owned() };
        let (one, two, none) = (digest(1, "ab"), digest(2, "cd"), Digest { sum: 0, ..digest(0, "ef") });
        let all = fold([&one, &two]);
        assert_eq!((all.rows, all.sum), (3, -3));
        assert_eq!(fold([&one, &none, &two, &none]), all);
        assert_ne!(fold([&two, &one]), all);
        // what psql says of md5('abcd')
        assert_eq!(all.ordered, "e2fc714c4727ee9395f324cd2e7f331f");
    }
}
