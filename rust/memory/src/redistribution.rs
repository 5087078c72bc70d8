//! Distribution of unrequired segments among the pools that may grow.
//!
//! Each pool gets a share of the excess in proportion to its room to grow.  The running sum is
//! rounded instead of the single shares, so rounding loses nothing.

/// Least and largest size of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolBounds {
    /// Minimum number of segments.
    pub min: usize,
    /// Maximum number of segments; `usize::MAX` for no limit.
    pub max: usize,
}

/// Returns the new size of each pool; `None` for pools that cannot be resized or whose size does
/// not change.
///
/// `available` is the number of segments that are not required.
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
