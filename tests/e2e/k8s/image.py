#!/usr/bin/env python3
"""image.py DIR OUT.tar TAG[,TAG...] [CMD...]: a directory tree as a container image of one layer, which `ctr images import`
takes (the format of `docker save`). Everything in it belongs to root, or to the owner that OWNER=uid:gid names, or with
OWNER=keep to whom the tree says, and is as old as the epoch, so the same tree gives the same image. RUN_AS=uid:gid and
ENTRYPOINT=["program"] go into its configuration, CMD=["argument"] in the place of the command line's."""
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile


def layer(tree, uid, gid):
    def plain(info):
        if uid is not None:
            info.uid, info.gid = uid, gid
        info.uname, info.gname, info.mtime = "", "", 0
        return info

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(os.listdir(tree)):
            tar.add(os.path.join(tree, name), name, filter=plain)
    return out.getvalue()


def image(tree, out, tags, cmd):
    owner = os.environ.get("OWNER", "0:0")
    uid, gid = (None, None) if owner == "keep" else (int(n) for n in owner.split(":"))
    blob = layer(tree, uid, gid)
    blob_id = hashlib.sha256(blob).hexdigest()
    arch = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
    cmd = json.loads(os.environ["CMD"]) if os.environ.get("CMD") else cmd
    how = {"Cmd": cmd, "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], "WorkingDir": "/"}
    if os.environ.get("RUN_AS"):
        how["User"] = os.environ["RUN_AS"]
    if os.environ.get("ENTRYPOINT"):
        how["Entrypoint"] = json.loads(os.environ["ENTRYPOINT"])
    config = json.dumps({
        "architecture": arch, "os": "linux", "created": "1970-01-01T00:00:00Z",
        "config": how,
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + blob_id]},
        "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "image.py"}],
    }).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    manifest = [{"Config": config_name, "RepoTags": tags, "Layers": [blob_id + "/layer.tar"]}]
    with tarfile.open(out, "w") as tar:
        for name, data in ((config_name, config), (blob_id + "/layer.tar", blob),
                           ("manifest.json", json.dumps(manifest).encode())):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    image(sys.argv[1], sys.argv[2], sys.argv[3].split(","), sys.argv[4:])
