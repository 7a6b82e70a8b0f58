"""Numbers of system calls, those of <asm/unistd.h> of x86_64 and aarch64 (pure)."""

from collections.abc import Sequence
from dataclasses import dataclass

# read write close fstat lseek mmap mprotect munmap brk; rt_sigaction rt_sigprocmask rt_sigreturn
# sigaltstack; pread64 readv writev; faccessat faccessat2 readlinkat newfstatat statx getdents64
# getcwd; pselect6 ppoll; sched_yield sched_getaffinity mremap madvise nanosleep clock_nanosleep;
# getpid gettid getppid getuid getgid geteuid getegid getresuid getresgid getgroups uname; sendto
# recvfrom; exit exit_group restart_syscall; gettimeofday clock_gettime clock_getres times
# getrusage sysinfo getrlimit; futex set_tid_address set_robust_list rseq membarrier getcpu
# getrandom; capget capset lead, which only give up
# fmt: off
_X86_64 = (
    125, 126,
    0, 1, 3, 5, 8, 9, 10, 11, 12, 13, 14, 15, 131, 17, 19, 20, 269, 439, 267, 262, 332, 217, 79,
    270, 271, 24, 204, 25, 28, 35, 230, 39, 186, 110, 102, 104, 107, 108, 118, 120, 115, 63,
    44, 45, 60, 231, 219, 96, 228, 229, 100, 98, 99, 97, 202, 218, 273, 334, 324, 309, 318,
    4, 6, 7, 21, 23, 89, 201,  # stat lstat poll access select readlink time
)
_AARCH64 = (
    90, 91,
    63, 64, 57, 80, 62, 222, 226, 215, 214, 134, 135, 139, 132, 67, 65, 66, 48, 439, 78, 79, 291,
    61, 17, 72, 73, 124, 123, 216, 233, 101, 115, 172, 178, 173, 174, 176, 175, 177, 148, 150,
    158, 160, 206, 207, 93, 94, 128, 169, 113, 114, 153, 165, 179, 163, 98, 96, 99, 293, 283,
    168, 278,
)
# fmt: on


@dataclass(frozen=True, slots=True)
class Machine:
    """The numbers of one architecture."""

    architecture: int
    seccomp: int
    plain: Sequence[int]
    #: openat, and open where it is: number and which argument its flags are
    opening: Sequence[tuple[int, int]]
    #: kill, tkill, tgkill
    signals: Sequence[int]
    fcntl: int
    ioctl: int
    #: socket, socketpair: their first argument is a family
    socket: int
    socketpair: int
    setsockopt: int
    prlimit64: int
    #: sched_setparam sched_setscheduler sched_setattr: their first argument is a thread
    scheduling: Sequence[int]
    setpriority: int
    ioprio_set: int
    perf_event_open: int
    #: clone, fork, vfork
    starting: Sequence[int]
    #: stat lstat access readlink newfstatat readlinkat faccessat statx faccessat2
    asking: Sequence[int]
    #: changes of modes of files, which Landlock allows everywhere: chmod fchmod fchmodat fchmodat2
    modes: Sequence[int]
    #: leaving the group of processes that ends together: setpgid setsid
    groups: Sequence[int]
    #: changes of owners and attributes of files, which Landlock allows too; keys of the kernel;
    #: tracing; the user's memory, queues and semaphores of System V; what `SYS_ADMIN` allows and no
    #: counter of a GPU needs (see `refuse_rights`)
    rights: Sequence[int]
    #: clone unshare: the first argument holds the namespaces that they make
    with_namespaces: Sequence[int]
    #: the first number of another table of calls, if there is one
    foreign: int = 0


CLONE3 = 435  # everywhere; its flags lie in memory, where no filter sees them
# chown fchown lchown fchownat, setxattr lsetxattr fsetxattr, removexattr lremovexattr
# fremovexattr; add_key request_key keyctl; bpf fanotify_init open_by_handle_at setns quotactl
# swapon swapoff sethostname setdomainname; ptrace; shmget shmat shmctl shmdt semget semop semctl
# semtimedop msgget msgsnd msgrcv msgctl; mount umount2 pivot_root acct syslog. With equal numbers
# everywhere: setxattrat removexattrat file_setattr; io_uring_setup, whose calls no filter sees;
# open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr open_tree_attr quotactl_fd.
_RIGHTS = (463, 466, 469, 425, 428, 429, 430, 431, 432, 433, 442, 467, 443)
# fmt: off
MACHINES = {
    "x86_64": Machine(
        0xC000003E,
        317,
        _X86_64,
        ((257, 2), (2, 1)),
        (62, 200, 234),
        72,
        16,
        41,
        53,
        54,
        302,
        (142, 144, 314),
        141,
        251,
        298,
        (56, 57, 58),
        (4, 6, 21, 89, 262, 267, 269, 332, 439),
        (90, 91, 268, 452),
        (109, 112),
        (
            92, 93, 94, 260, 188, 189, 190, 197, 198, 199,
            *_RIGHTS, 248, 249, 250, 321, 300, 304, 308, 179, 167, 168, 170, 171,
            101,
            29, 30, 31, 67, 64, 65, 66, 220, 68, 69, 70, 71,
            165, 166, 155, 163, 103,
        ),
        (56, 272),
        foreign=0x40000000,
    ),
    "aarch64": Machine(
        0xC00000B7,
        277,
        _AARCH64,
        ((56, 2),),
        (129, 130, 131),
        25,
        29,
        198,
        199,
        208,
        261,
        (118, 119, 274),
        140,
        30,
        241,
        (220,),
        (79, 78, 48, 291, 439),
        (52, 53, 452),
        (154, 157),
        (
            54, 55, 5, 6, 7, 14, 15, 16,
            *_RIGHTS, 217, 218, 219, 280, 262, 265, 268, 60, 224, 225, 161, 162,
            117,
            194, 196, 195, 197, 190, 193, 191, 192, 186, 189, 188, 187,
            40, 39, 41, 89, 116,
        ),
        (220, 97),
    ),
}


# fmt: on
