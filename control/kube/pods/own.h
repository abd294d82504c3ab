/*
 * own.h - what muxd calls its own in a pod that it makes: names and places which nobody else may use.
 */
#ifndef CONTROL_KUBE_PODS_OWN_H
#define CONTROL_KUBE_PODS_OWN_H

#define KUBE_CONTAINER    "sandbox"
#define KUBE_INIT         "muxlet" /* the init container */
#define KUBE_VOLUME_WORK  "workspace"
#define KUBE_VOLUME_LET   "muxlet"
#define KUBE_WORKSPACE    "/workspace"
#define KUBE_MUXLET_DIR   "/muxd"                 /* where the init container puts muxlet */
#define KUBE_MUXLET_PATH  "/usr/local/bin/muxlet" /* in images, where the configuration says nothing else */
#define KUBE_MUXLET_THERE KUBE_MUXLET_DIR "/muxlet"

#endif
