//! The libraries of this process: their tables for unwinding, and the names of their functions.
//!
//! A library is read when the first of its functions occurs in a stack.

use std::fmt;
use std::fs::{self, File};
use std::ops::Range;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Object, ObjectSection, ObjectSymbol, ReadCache, ReadRef, SymbolKind};

use crate::memory;

/// The largest table of frames or names that is read.
const MAX_SECTION_BYTES: u64 = 256 << 20;

/// A part of a library that holds code.
struct Mapped {
    addresses: Range<u64>,
    /// Offset in the file.
    offset: u64,
    path: String,
    /// The library, once one of its functions occurred; `None` inside if it could not be read.
    loaded: Option<Option<Loaded>>,
}

struct Loaded {
    /// Difference between addresses in memory and those of the file.
    bias: u64,
    /// Sorted by their first address.
    functions: Vec<Function>,
}

struct Function {
    addresses: Range<u64>,
    name: Box<str>,
}

/// All mapped parts of libraries.
pub(crate) struct Modules {
    mapped: Vec<Mapped>,
    unwinder: UnwinderX86_64<Vec<u8>>,
    cache: CacheX86_64,
}

impl fmt::Debug for Modules {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Modules")
            .field("mapped", &self.mapped.len())
            .finish_non_exhaustive()
    }
}

impl Default for Modules {
    fn default() -> Self {
        Self {
            mapped: mapped(),
            unwinder: UnwinderX86_64::new(),
            cache: CacheX86_64::new(),
        }
    }
}

impl Modules {
    /// The caller of a function; `None` where the stack begins, an error if it is unknown.
    pub(crate) fn step(
        &mut self,
        address: FrameAddress,
        registers: &mut UnwindRegsX86_64,
        read_stack: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) -> Result<Option<FrameAddress>, ()> {
        // Without a table, the unwinder would guess.
        self.loaded(address.address_for_lookup()).ok_or(())?;
        let next = self
            .unwinder
            .unwind_frame(address, registers, &mut self.cache, read_stack)
            .map_err(|_| ())?;
        Ok(next.and_then(FrameAddress::from_return_address))
    }

    /// The names of a function, perhaps empty, and of its library.
    pub(crate) fn name(&mut self, address: u64) -> (String, String) {
        let Some(index) = self.index(address) else {
            return (String::new(), "code of no library".to_owned());
        };
        let path = &self.mapped[index].path;
        let library = path.rsplit('/').next().unwrap_or(path).to_owned();
        let Some(loaded) = self.loaded(address) else {
            return (String::new(), library);
        };
        let within = address.wrapping_sub(loaded.bias);
        let after = loaded
            .functions
            .partition_point(|one| one.addresses.start <= within);
        let function = after
            .checked_sub(1)
            .map(|last| &loaded.functions[last])
            .filter(|one| one.addresses.contains(&within));
        let name = function.map_or_else(String::new, |one| {
            format!("{:#}", rustc_demangle::demangle(&one.name))
        });
        (name, library)
    }

    fn index(&self, address: u64) -> Option<usize> {
        let after = self
            .mapped
            .partition_point(|one| one.addresses.start <= address);
        let last = after.checked_sub(1)?;
        self.mapped[last]
            .addresses
            .contains(&address)
            .then_some(last)
    }

    /// Returns the library of an address.
    fn loaded(&mut self, address: u64) -> Option<&Loaded> {
        let index = self.index(address)?;
        let one = &mut self.mapped[index];
        if one.loaded.is_none() {
            let read = one.read();
            if let Some((module, _)) = &read {
                self.unwinder.add_module(module.clone());
            }
            one.loaded = Some(read.map(|(_, loaded)| loaded));
        }
        self.mapped[index].loaded.as_ref()?.as_ref()
    }
}

impl Mapped {
    fn read(&self) -> Option<(Module<Vec<u8>>, Loaded)> {
        if self.path == "[vdso]" {
            let mut bytes =
                vec![0; usize::try_from(self.addresses.end - self.addresses.start).ok()?];
            let count = memory::read(self.addresses.start, &mut bytes);
            bytes.truncate(count);
            self.parse(bytes.as_slice())
        } else {
            // Read, not mapped: if the file is truncated meanwhile, that is an error, not a signal.
            let cache = ReadCache::new(File::open(&self.path).ok()?);
            self.parse(&cache)
        }
    }

    fn parse<'data>(&self, data: impl ReadRef<'data>) -> Option<(Module<Vec<u8>>, Loaded)> {
        let file = ElfFile64::<object::NativeEndian, _>::parse(data).ok()?;
        let endian = file.endian();
        let segment = file.elf_program_headers().iter().find(|one| {
            let begin: u64 = one.p_offset(endian);
            let size: u64 = one.p_filesz(endian);
            // Several segments may share a page of the file: choose the one with code.
            one.p_type(endian) == object::elf::PT_LOAD
                && one.p_flags(endian).contains(object::elf::PF_X)
                && (begin & !4095..begin.saturating_add(size)).contains(&self.offset)
        })?;
        let into = self.offset.wrapping_sub(segment.p_offset(endian));
        let bias = self
            .addresses
            .start
            .wrapping_sub(segment.p_vaddr(endian).wrapping_add(into));
        let range = |name| {
            let section = file.section_by_name(name)?;
            Some(section.address()..section.address() + section.size())
        };
        let bytes = |name| {
            let section = file.section_by_name(name)?;
            let fits = section.size() <= MAX_SECTION_BYTES;
            fits.then(|| section.data().ok().map(<[u8]>::to_vec))
                .flatten()
        };
        let sections = ExplicitModuleSectionInfo {
            text_svma: range(".text"),
            got_svma: range(".got"),
            eh_frame_svma: range(".eh_frame"),
            eh_frame: bytes(".eh_frame"),
            eh_frame_hdr_svma: range(".eh_frame_hdr"),
            eh_frame_hdr: bytes(".eh_frame_hdr"),
            ..ExplicitModuleSectionInfo::default()
        };
        sections.eh_frame.as_ref()?;
        let module = Module::new(self.path.clone(), self.addresses.clone(), bias, sections);
        let functions = functions(&file);
        Some((module, Loaded { bias, functions }))
    }
}

/// The functions of a file by their addresses, without those that lie within other functions.
fn functions<'data>(file: &impl Object<'data>) -> Vec<Function> {
    let mut found: Vec<_> = file
        .symbols()
        .chain(file.dynamic_symbols())
        .filter(|one| one.kind() == SymbolKind::Text && one.is_definition() && one.size() > 0)
        .filter_map(|one| {
            Some(Function {
                addresses: one.address()..one.address().checked_add(one.size())?,
                name: one.name().ok()?.into(),
            })
        })
        .collect();
    found.sort_by_key(|one| (one.addresses.start, std::cmp::Reverse(one.addresses.end)));
    found.dedup_by(|next, last| next.addresses.start < last.addresses.end);
    found
}

/// The parts of this process's memory that hold code of files.
fn mapped() -> Vec<Mapped> {
    let text = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    text.lines().filter_map(mapped_of).collect()
}

/// A line such as `7f00-7f10 r-xp 00001000 08:01 123    /usr/lib/libc.so.6`.
fn mapped_of(line: &str) -> Option<Mapped> {
    let mut words = line.splitn(6, ' ');
    let (begin, end) = words.next()?.split_once('-')?;
    let is_code = words.next()?.contains('x');
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let path = words.nth(2)?.trim_start();
    let number = |text| u64::from_str_radix(text, 16).ok();
    (is_code && (path.starts_with('/') || path == "[vdso]")).then_some(Mapped {
        addresses: number(begin)?..number(end)?,
        offset,
        path: path.to_owned(),
        loaded: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_code_is_read_and_others_are_not() {
        let line = "7f1000-7f3000 r-xp 00002000 08:01 123        /opt/a b/libc.so.6";
        let one = mapped_of(line).unwrap();
        assert_eq!(one.addresses, 0x7f1000..0x7f3000);
        assert_eq!(
            (one.offset, one.path.as_str()),
            (0x2000, "/opt/a b/libc.so.6")
        );
        for other in [
            "7f1000-7f3000 r--p 00002000 08:01 123        /lib/libc.so.6",
            "7f1000-7f3000 r-xp 00000000 00:00 0 ",
            "7f1000-7f3000 r-xp 00000000 00:00 0          [vsyscall]",
            "",
        ] {
            assert!(mapped_of(other).is_none(), "{other}");
        }
    }
}
