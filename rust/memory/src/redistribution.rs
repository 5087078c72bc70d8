//! Distribution of segments that no pool requires among the pools that may grow.
//!
//! Each pool gets the part of the excess that its room to grow is of all pools' room to grow.
//! The running sum is rounded instead of the single shares, so nothing is lost to rounding.

/// Least and largest size of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolBounds {
    /// Segments the pool must always be able to have.
    pub min: usize,
    /// Segments the pool may have at most; `usize::MAX` for no limit.
    pub max: usize,
}

/// The new size of each pool; `None` for those that keep theirs because they cannot be resized, or
/// because nothing changes.
///
/// `available` is the number of segments that nobody requires.
#[must_use]
pub fn redistribute(available: usize, pools: &[PoolBounds]) -> Vec<Option<usize>> {
    let resizable = |pool: &PoolBounds| pool.min < pool.max;
    if available == 0 {
        return pools
            .iter()
            .map(|pool| resizable(pool).then_some(pool.min))
            .collect();
    }
    // Sums of many "no limit" rooms stay far below 2^128.
    let room = |pool: &PoolBounds| available.min(pool.max - pool.min) as u128;
    let total_room: u128 = pools.iter().filter(|pool| resizable(pool)).map(room).sum();
    if total_room == 0 {
        return vec![None; pools.len()];
    }
    let shared_out = (available as u128).min(total_room);
    let mut room_so_far = 0_u128;
    let mut given = 0_u128;
    let sizes = pools
        .iter()
        .map(|pool| {
            if !resizable(pool) {
                return None;
            }
            room_so_far += room(pool);
            let mine = shared_out * room_so_far / total_room - given;
            given += mine;
            Some(pool.min + usize::try_from(mine).expect("a share is at most what is available"))
        })
        .collect();
    debug_assert_eq!(room_so_far, total_room);
    debug_assert_eq!(given, shared_out);
    sizes
}

#[cfg(test)]
mod tests {
    use super::{PoolBounds, redistribute};

    fn sizes(available: usize, pools: &[(usize, usize)]) -> Vec<Option<usize>> {
        let bounds: Vec<PoolBounds> = pools
            .iter()
            .map(|&(min, max)| PoolBounds { min, max })
            .collect();
        redistribute(available, &bounds)
    }

    /// Worked examples of the documented formula.
    #[test]
    fn worked_examples() {
        assert_eq!(sizes(1023, &[(1, usize::MAX)]), [Some(1024)]);
        assert_eq!(sizes(999, &[(24, 24), (1, usize::MAX)]), [None, Some(1000)]);
        assert_eq!(
            sizes(1022, &[(1, usize::MAX), (1, usize::MAX)]),
            [Some(512), Some(512)]
        );
        assert_eq!(sizes(1022, &[(1, 10), (1, 10)]), [Some(10), Some(10)]);
        assert_eq!(sizes(0, &[(3, 9), (2, 2)]), [Some(3), None]);
        assert_eq!(sizes(5, &[(3, 3), (2, 2)]), [None, None]);
    }
}
