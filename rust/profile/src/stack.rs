//! The functions that a copied stack stands for.

use framehop::FrameAddress;
use framehop::x86_64::UnwindRegsX86_64;

use crate::capture::Captured;
use crate::modules::Modules;

const MAX_DEPTH: usize = 512;

/// Addresses within the functions, innermost first, and whether the outermost is among them.
pub(crate) fn unwind(captured: &Captured, modules: &mut Modules) -> (Vec<u64>, bool) {
    let mut registers = UnwindRegsX86_64::new(
        captured.instruction,
        captured.stack_pointer,
        captured.frame_pointer,
    );
    let mut read_stack = |address: u64| -> Result<u64, ()> {
        let offset = address.checked_sub(captured.stack_pointer).ok_or(())?;
        let offset = usize::try_from(offset).map_err(|_| ())?;
        let bytes = captured.stack.get(offset..).and_then(<[u8]>::first_chunk);
        bytes.map(|bytes| u64::from_ne_bytes(*bytes)).ok_or(())
    };
    let mut address = FrameAddress::from_instruction_pointer(captured.instruction);
    let mut found = Vec::new();
    while found.len() < MAX_DEPTH {
        // Within the call, also where nothing follows it in the function.
        found.push(address.address_for_lookup());
        match modules.step(address, &mut registers, &mut read_stack) {
            Ok(Some(next)) => address = next,
            Ok(None) => return (found, true),
            Err(()) => break,
        }
    }
    (found, false)
}
