#!/bin/sh
# init.sh: process 1 of the guest. Makes a root that can be written to, out of
# the host's root (read-only) and a tmpfs, runs the job's command in it and
# halts the machine. GUEST_JOB is the job's folder on the host: the only place
# where the guest writes.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb
mount -t proc proc /proc
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root && cd /mnt/root || exit 1
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t devtmpfs devtmpfs dev
mount -t tmpfs tmpfs run
mkdir -p dev/pts dev/shm
mount -t devpts devpts dev/pts
mount -t tmpfs tmpfs dev/shm
# Everything is built in: whoever asks for a module has it already.
printf '#!/bin/sh\nexit 0\n' >sbin/modprobe
chmod +x sbin/modprobe
mount -t hostfs -o "$GUEST_JOB" hostfs mnt
exec chroot . /bin/sh /mnt/command
