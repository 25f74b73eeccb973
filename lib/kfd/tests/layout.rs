//! Every size, offset and request number against values measured from the kernel's headers.

use std::mem::offset_of;

use rocferry_kfd::drm::abi as drm;
use rocferry_kfd::kfd::abi as kfd;

/// `layout!(Type, size, field @ offset, …)`
macro_rules! layout {
    ($ty:ty, $size:expr $(, $field:ident @ $offset:expr)* $(,)?) => {
        assert_eq!(size_of::<$ty>(), $size, "size of {}", stringify!($ty));
        $(assert_eq!(
            offset_of!($ty, $field), $offset,
            "offset of {}.{}", stringify!($ty), stringify!($field)
        );)*
    };
}

#[test]
fn kfd_request_numbers() {
    assert_eq!(kfd::GET_VERSION, 0x8008_4b01);
    assert_eq!(kfd::GET_PROCESS_APERTURES_NEW, 0xc010_4b14);
    assert_eq!(kfd::GET_DMABUF_INFO, 0xc020_4b1c);
    assert_eq!(kfd::CRIU_OP, 0xc038_4b22);
    assert_eq!(kfd::AVAILABLE_MEMORY, 0xc010_4b23);
    assert_eq!(kfd::SET_XNACK_MODE, 0xc004_4b21);
}

#[test]
fn kfd_structures() {
    layout!(kfd::Version, 8, major @ 0, minor @ 4);
    layout!(kfd::AperturesArgs, 16, records @ 0, count @ 8);
    layout!(kfd::Aperture, 56, lds_base @ 0, lds_limit @ 8, scratch_base @ 16, scratch_limit @ 24,
        gpuvm_base @ 32, gpuvm_limit @ 40, gpu_id @ 48);
    layout!(kfd::DmabufInfoArgs, 32, size @ 0, metadata @ 8, metadata_size @ 16, gpu_id @ 20,
        flags @ 24, dmabuf_fd @ 28);
    layout!(kfd::CriuArgs, 56, devices @ 0, bos @ 8, priv_data @ 16, priv_data_size @ 24,
        num_devices @ 32, num_bos @ 36, num_objects @ 40, pid @ 44, op @ 48);
    layout!(kfd::DeviceBucket, 16, user_gpu_id @ 0, actual_gpu_id @ 4, drm_fd @ 8);
    layout!(kfd::BoBucket, 48, addr @ 0, size @ 8, offset @ 16, restored_offset @ 24, gpu_id @ 32,
        alloc_flags @ 36, dmabuf_fd @ 40);
    layout!(kfd::AvailableMemory, 16, available @ 0, gpu_id @ 8);
    layout!(kfd::XnackArgs, 4, enabled @ 0);
    assert_eq!(kfd::NO_FD, 0xffff_ffff);
}

#[test]
fn bo_flags() {
    use rocferry_kfd::BoFlags as F;
    let bits = [
        (F::VRAM, 0),
        (F::GTT, 1),
        (F::USERPTR, 2),
        (F::DOORBELL, 3),
        (F::MMIO_REMAP, 4),
        (F::CONTIGUOUS, 23),
        (F::EXT_COHERENT, 24),
        (F::UNCACHED, 25),
        (F::COHERENT, 26),
        (F::AQL_QUEUE_MEM, 27),
        (F::NO_SUBSTITUTE, 28),
        (F::PUBLIC, 29),
        (F::EXECUTABLE, 30),
        (F::WRITABLE, 31),
    ];
    for (flag, bit) in bits {
        assert_eq!(flag.bits(), 1 << bit, "{flag:?}");
    }
    assert_eq!(F::from_bits_retain(0xffff_ffff).bits(), 0xffff_ffff);
}

#[test]
fn drm_request_numbers() {
    assert_eq!(drm::VERSION, 0xc040_6400);
    assert_eq!(drm::GEM_CLOSE, 0x4008_6409);
    assert_eq!(drm::PRIME_HANDLE_TO_FD, 0xc00c_642d);
    assert_eq!(drm::PRIME_FD_TO_HANDLE, 0xc00c_642e);
    assert_eq!(drm::GEM_CREATE, 0xc020_6440);
    assert_eq!(drm::GEM_MMAP, 0xc008_6441);
    assert_eq!(drm::CTX, 0xc010_6442);
    assert_eq!(drm::CS, 0xc018_6444);
    assert_eq!(drm::INFO, 0x4020_6445);
    assert_eq!(drm::GEM_VA, 0x4040_6448);
    assert_eq!(drm::WAIT_CS, 0xc020_6449);
    assert_eq!(drm::GEM_OP, 0xc018_6450);
    assert_eq!(drm::GEM_USERPTR, 0xc018_6451);
    assert_eq!(drm::GEM_LIST_HANDLES, 0xc010_6459);
}

#[test]
fn drm_structures() {
    layout!(drm::VersionArgs, 64, major @ 0, minor @ 4, patch @ 8, name_len @ 16, name @ 24,
        date_len @ 32, date @ 40, desc_len @ 48, desc @ 56);
    layout!(drm::GemClose, 8, handle @ 0);
    layout!(drm::PrimeHandleToFd, 12, handle @ 0, flags @ 4, fd @ 8);
    layout!(drm::PrimeFdToHandle, 12, handle @ 0, flags @ 4, fd @ 8);
    layout!(drm::GemCreate, 32, bo_size @ 0, alignment @ 8, domains @ 16, domain_flags @ 24);
    layout!(drm::GemMmap, 8, handle_or_offset @ 0);
    layout!(drm::Ctx, 16, op @ 0, flags @ 4, ctx_id @ 8, priority @ 12);
    layout!(drm::Cs, 24, ctx_id @ 0, bo_list_handle @ 4, num_chunks @ 8, flags @ 12, chunks @ 16);
    layout!(drm::Chunk, 16, id @ 0, length_dw @ 4, data @ 8);
    layout!(drm::ChunkIb, 32, pad @ 0, flags @ 4, va_start @ 8, ib_bytes @ 16, ip_type @ 20,
        ip_instance @ 24, ring @ 28);
    layout!(drm::BoListIn, 24, operation @ 0, list_handle @ 4, bo_number @ 8, bo_info_size @ 12,
        bo_info @ 16);
    layout!(drm::BoListEntry, 8, handle @ 0, priority @ 4);
    layout!(drm::Info, 32, return_pointer @ 0, return_size @ 8, query @ 12, args @ 16);
    layout!(drm::GemVa, 64, handle @ 0, pad @ 4, operation @ 8, flags @ 12, va_address @ 16,
        offset_in_bo @ 24, map_size @ 32, timeline_point @ 40, timeline_syncobj_out @ 48,
        num_syncobj_handles @ 52, input_fence_syncobj_handles @ 56);
    layout!(drm::WaitCs, 32, handle_or_status @ 0, timeout @ 8, ip_type @ 16, ip_instance @ 20,
        ring @ 24, ctx_id @ 28);
    layout!(drm::GemOp, 24, handle @ 0, op @ 4, value @ 8, num_entries @ 16, pad @ 20);
    layout!(drm::GemUserptr, 24, addr @ 0, size @ 8, flags @ 16, handle @ 20);
    layout!(drm::GemListHandles, 16, entries @ 0, num_entries @ 8);
    layout!(drm::HandleEntry, 40, gem_handle @ 0, flags @ 4, size @ 8, preferred_domains @ 16,
        alloc_flags @ 24, alignment @ 32);
    layout!(drm::HwIpInfo, 32, major @ 0, minor @ 4, caps @ 8, ib_start_alignment @ 16,
        ib_size_alignment @ 20, available_rings @ 24, ip_discovery_version @ 28);
    layout!(drm::DevInfoRaw, 440, device_id @ 0, family @ 16, ids_flags @ 136,
        virtual_address_offset @ 144, virtual_address_max @ 152, virtual_address_alignment @ 160,
        pte_fragment_size @ 164, gart_page_size @ 168, high_va_offset @ 336, high_va_max @ 344);
}
