//! The defects, each as one replacement in our sources.
//!
//! The text to be found stands in its file exactly once; when the code moves on, `cargo xtask mutants` says so
//! and the entry moves with it.

/// What must fail when the defect is in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Test {
    /// A case that runs in the test machine with the altered plugin.
    Scenario(&'static str),
    /// A unit test: package, what cargo calls the target, full name.
    Unit(&'static str, &'static [&'static str], &'static str),
    /// The matcher's tests, public cases and brute force.
    Matching,
}

/// A defect of the C plugin, put into ours.
#[derive(Debug)]
pub(super) struct Mutant {
    /// Number of the defect.
    pub(super) name: &'static str,
    /// What is wrong then.
    pub(super) what: &'static str,
    /// File, relative to the root of the sources.
    pub(super) file: &'static str,
    /// What is replaced.
    pub(super) find: &'static str,
    /// By what.
    pub(super) replace: &'static str,
    /// What shows it.
    pub(super) test: Test,
}

use Test::{Scenario, Unit};

/// All of them.
pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "f01",
        what: "an error of the copying is lost in the clean-up",
        file: "lib/gpu/src/restore/contents.rs",
        find: "pipeline::load(transfers, &bulk::options(host, config, threads))?;",
        replace: "pipeline::load(transfers, &bulk::options(host, config, threads)).unwrap_or_default();",
        test: Scenario("defects/f01_copy_errors_are_kept"),
    },
    Mutant {
        name: "f02",
        what: "read positions run on from one GPU's file to the next",
        file: "lib/gpu/src/restore/contents.rs",
        find: "let bos = bulk::bo_specs(pages, dmabufs)?;",
        replace: "let mut bos = bulk::bo_specs(pages, dmabufs)?;
            let earlier = sources.iter().take_while(|earlier| earlier.pages.gpu != pages.gpu);
            let earlier: u64 = earlier.map(|earlier| earlier.pages.total).sum();
            bos.iter_mut().for_each(|bo| bo.file_offset += earlier);",
        test: Scenario("defects/f02_each_gpu_has_its_own_offsets"),
    },
    Mutant {
        name: "f03",
        what: "an error is only returned from a hook that CRIU does not listen to",
        file: "lib/gpu/src/restore/session.rs",
        find: "let failed = answer.err().or(written.err());",
        replace: "let failed = answer.err().and(None::<RestoreError>).or(written.err());",
        test: Scenario("defects/f03_a_failed_restore_is_seen"),
    },
    Mutant {
        name: "f05",
        what: "no UNPAUSE after a failed dump",
        file: "plugin/src/hooks.rs",
        find: "Session::Dump(session) => session.finish(&host),",
        replace: "Session::Dump(session) if ret == 0 => session.finish(&host),
            Session::Dump(_) => {}",
        test: Scenario("defects/f05_queues_go_on_after_a_failed_dump"),
    },
    Mutant {
        name: "f06",
        what: "CRIU crashes when PROCESS_INFO fails",
        file: "lib/gpu/src/dump/process.rs",
        find: ".process_info()",
        replace: ".process_info().or_else(|_| std::process::abort())",
        test: Scenario("defects/f06_process_info_fails"),
    },
    Mutant {
        name: "f07",
        what: "an older, longer image keeps its tail",
        file: "lib/image/src/dir.rs",
        find: "            | OFlags::TRUNC\n",
        replace: "",
        test: Scenario("defects/f07_old_images_do_not_show_through"),
    },
    Mutant {
        name: "f08",
        what: "the inventory names the plugin only where a device is mapped",
        file: "lib/gpu/src/dump/session.rs",
        find: "                host.claim_inventory();\n                self.dump_device",
        replace: "                self.dump_device",
        test: Scenario("defects/f08_inventory_without_a_mapping"),
    },
    Mutant {
        name: "f09",
        what: "any device is taken for a render node",
        file: "lib/gpu/src/device.rs",
        find: "(number.major == DRM_MAJOR && self.gpu_of.contains_key(&minor))",
        replace: "(number.major != DRM_MAJOR || self.gpu_of.contains_key(&minor))",
        test: Scenario("defects/f09_foreign_devices"),
    },
    Mutant {
        name: "f10",
        what: "a render node must come after the kfd file",
        file: "lib/gpu/src/dump/session.rs",
        find: "gem::refuse_objects(file, id, minor)?;",
        replace: "if process.kfd_file.is_none() {
                    return Err(DumpError::NoKfdFile { pid: owner.pid.as_raw_nonzero().get() });
                }
                gem::refuse_objects(file, id, minor)?;",
        test: Scenario("defects/f10_render_node_before_kfd"),
    },
    Mutant {
        name: "f11",
        what: "images carry the ids of this machine",
        file: "lib/gpu/src/dump/images.rs",
        find: "topology.rename(|gpu| process.user_id(gpu.id))",
        replace: "topology.rename(|gpu| process.user_id(gpu.id).map(|_| UserGpuId(gpu.id.0)))",
        test: Scenario("defects/f11_second_generation"),
    },
    Mutant {
        name: "f12",
        what: "all GPUs of the machine are recorded",
        file: "lib/gpu/src/dump/images.rs",
        find: "topology.rename(|gpu| process.user_id(gpu.id))",
        replace: "topology.rename(|gpu| Some(process.user_id(gpu.id).unwrap_or(UserGpuId(gpu.id.0))))",
        test: Scenario("defects/f12_subset_of_the_gpus"),
    },
    Mutant {
        name: "f13",
        what: "every copy is a byte longer from gfx9 on",
        file: "lib/gpu/src/pipeline/copy/packet.rs",
        find: "let count = if family >= Family::AI { now - 1 } else { now };",
        replace: "let count = now;",
        test: Scenario("defects/f13_copy_count"),
    },
    Mutant {
        name: "f17",
        what: "images lie in the work directory",
        file: "plugin/src/host.rs",
        find: "let number = unsafe { (self.symbols.criu_get_image_dir)() };",
        replace: "let number = unsafe { libc::open(c\".\".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };",
        test: Scenario("defects/f17_images_in_the_image_directory"),
    },
    Mutant {
        name: "f20",
        what: "a render node that cannot be opened is used",
        file: "lib/gpu/src/bulk.rs",
        find: "let node = RenderNode::open_minor(minor).map_err(Into::into);",
        replace: "let node = Ok(RenderNode::open_minor(minor).unwrap_or_else(|_| std::process::abort()));",
        test: Scenario("defects/f20_render_node_gone_at_dump"),
    },
    Mutant {
        name: "f21",
        what: "RESTORE is sent with something else than the node",
        file: "lib/gpu/src/restore/task.rs",
        find: ".map(|gpu| RenderNode::open_minor(gpu.minor))",
        replace: ".map(|gpu| RenderNode::open_minor(gpu.minor).or_else(|_| RenderNode::open_minor(gpus[0].minor)))",
        test: Scenario("defects/f21_render_node_gone_at_restore"),
    },
    Mutant {
        name: "f22",
        what: "each kfd file is taken for a process",
        file: "lib/gpu/src/dump/session.rs",
        find: "Device::Kfd => match process.kfd_file {",
        replace: "Device::Kfd => match process.kfd_file.and(None::<FileId>) {",
        test: Scenario("defects/f22_two_kfd_files"),
    },
    Mutant {
        name: "f24",
        what: "links to nodes that are not there are followed",
        file: "lib/topology/src/system.rs",
        find: "link.valid = present.contains(&link.to);",
        replace: "link.valid = true;",
        test: Unit(
            "rocferry-image",
            &["--lib"],
            "kfd::tests::reject::links_to_nodes_that_are_not_there_are_marked_and_never_followed",
        ),
    },
    Mutant {
        name: "f25",
        what: "no more than 28 GPUs",
        file: "lib/topology/src/matcher.rs",
        find: "        let gpus = usable_gpus(destination, usable)?;\n",
        replace: "        let mut gpus = usable_gpus(destination, usable)?;\n        gpus.truncate(28);\n",
        test: Unit(
            "rocferry-topology",
            &["--test", "real_trees"],
            "matching::each_machine_fits_itself_and_stays_as_it_is",
        ),
    },
    Mutant {
        name: "f26",
        what: "a BO is mapped at its GPU address or nowhere",
        file: "lib/gpu/src/dump/mappings.rs",
        find: "on_gpu(bo) && bo.offset == vma.pgoff && ",
        replace: "on_gpu(bo) && bo.offset == vma.pgoff && bo.addr == vma.start && ",
        test: Scenario("defects/f26_mappings_anywhere"),
    },
    Mutant {
        name: "f27",
        what: "the shared memory of old thunks is wanted back",
        file: "lib/gpu/src/restore/task.rs",
        find: "        let version = kfd.version().map_err(kfd_error)?;\n",
        replace: "        let version = kfd.version().map_err(kfd_error)?;
        if image.shared_mem_size > 0 {
            std::fs::metadata(\"/dev/shm/hsakmt_shared_mem\").map_err(|source| RestoreError::System {
                what: \"shared memory\".to_owned(),
                source,
            })?;
        }
",
        test: Scenario("defects/f27_old_shared_memory"),
    },
    Mutant {
        name: "f28",
        what: "a process that could not be resumed lives on",
        file: "lib/gpu/src/restore/session.rs",
        find: "if let Some(pid) = Pid::from_raw(pid)\n",
        replace: "if let Some(pid) = Pid::from_raw(pid).filter(|_| false)\n",
        test: Scenario("defects/f28_resume_error_names_the_process"),
    },
    Mutant {
        name: "f29",
        what: "counts in images are trusted",
        file: "lib/image/src/kfd.rs",
        find: "            if stated == actual {\n",
        replace: "            if stated <= u64::from(u32::MAX) {\n",
        test: Unit(
            "rocferry-image",
            &["--lib"],
            "kfd::tests::reject::counts_are_not_trusted",
        ),
    },
    Mutant {
        name: "f30",
        what: "buffers of any size, pages or not",
        file: "lib/topology/src/buffer.rs",
        find: "Some((bytes & !(page_size - 1)).max(page_size))",
        replace: "Some(bytes)",
        test: Unit(
            "rocferry-topology",
            &["--lib"],
            "buffer::tests::values_become_whole_pages",
        ),
    },
    Mutant {
        name: "f31",
        what: "a render node stays open in the restored task",
        file: "lib/gpu/src/restore/task.rs",
        find: "gpu.render = Some(store(host, &node.into_fd(), what)?);",
        replace: "let kept = node.into_fd();
            std::mem::forget(rustix::io::fcntl_dupfd_cloexec(&kept, 500));
            gpu.render = Some(store(host, &kept, what)?);",
        test: Scenario("defects/f31_no_descriptor_stays"),
    },
    Mutant {
        name: "f32",
        what: "queues run again while memory is still to be dumped",
        file: "lib/gpu/src/dump/session.rs",
        find: "images::write_kfd(host, process, id, file, &image, devices)?;",
        replace: "images::write_kfd(host, process, id, file, &image, devices)?;
                    self.processes.remove(place).unpause(host);
                    return Ok(Shown::Saved);",
        test: Scenario("defects/f32_queues_stand_until_memory_is_dumped"),
    },
    Mutant {
        name: "f34",
        what: "helper threads write to CRIU's log",
        file: "plugin/src/hooks.rs",
        find: "rustix::thread::gettid() == rustix::process::getpid()",
        replace: "true",
        test: Unit(
            "rocferry-plugin",
            &["--lib"],
            "hooks::tests::helper_threads_may_not_log",
        ),
    },
    Mutant {
        name: "f35",
        what: "pids are those of CRIU's namespace",
        file: "lib/gpu/src/tracee.rs",
        find: "                        .last()\n                        .unwrap_or(pid)",
        replace: "                        .next()\n                        .unwrap_or(pid)",
        test: Scenario("defects/f35_pid_namespace_in_a_pid_namespace"),
    },
    Mutant {
        name: "f36",
        what: "an operation that fails leaves its descriptor open",
        file: "lib/kfd/src/drm.rs",
        find: "        let minor = render_minor(device)?;\n        let driver",
        replace: "        let minor = render_minor(device).inspect_err(|_| std::mem::forget(fd.try_clone()))?;
        let driver",
        test: Unit(
            "rocferry-kfd",
            &["--test", "leaks"],
            "a_thousand_failures_leave_no_descriptor",
        ),
    },
    Mutant {
        name: "f38",
        what: "CRIU crashes when one GPU of several fails",
        file: "lib/gpu/src/pipeline/run.rs",
        find: "        Some(error) => Err(error),\n",
        replace: "        Some(_) if jobs.len() > 1 => std::process::abort(),\n        Some(error) => Err(error),\n",
        test: Scenario("defects/f38_one_gpu_of_four"),
    },
    Mutant {
        name: "tids",
        what: "helper threads of a restored task take the ids of the application's",
        file: "lib/gpu/src/restore/tids.rs",
        find: "file.write_all(above.to_string().as_bytes())?;",
        replace: "let _ = &file;",
        test: Scenario("tree/two_processes_restored_50_times"),
    },
];
