//! One test per rule, for one backend.

/// `conformance!(make)`: `make` is an async function that returns a fresh [`crate::suite::Place`].
macro_rules! conformance {
    ($make:path) => {
        $crate::macros::conformance!($make;
            content_comes_back,
            every_kind_has_its_own_objects,
            ranges,
            ranges_outside_are_refused,
            nothing_larger_than_the_limit_comes,
            head_tells_size_and_age,
            missing_objects,
            deleted_objects_are_gone,
            keep_keeps,
            replace_replaces,
            one_of_eight_keepers_wins,
            racing_replacers_leave_one_whole,
            unfinished_objects_are_not_seen,
            an_aborted_writer_leaves_nothing,
            a_dropped_writer_leaves_nothing,
            an_abandoned_writer_leaves_the_old_object,
            finished_objects_are_whole,
            a_writer_replaces,
            an_empty_object_can_be_written,
            pieces_of_any_size_can_be_written,
            a_large_object,
            lists_follow_writes_and_deletes,
            foreign_objects_are_ignored,
            tenants_do_not_see_each_other,
            many_at_once,
            a_checkpoint_needs_packs,
        );
    };
    ($make:path; $($rule:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                $crate::suite::$rule(&$make().await).await;
            }
        )*
    };
}
pub(crate) use conformance;
