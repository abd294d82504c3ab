{{- /* Who muxd is to the cluster. */ -}}
{{- define "muxd.user" -}}
{{- .Values.config.kubernetes.admission_user | default (printf "system:serviceaccount:%s:muxd" .Release.Namespace) -}}
{{- end -}}

{{- /* muxd.conf(5): config, and what other values say. */ -}}
{{- define "muxd.config" -}}
{{- $box := .Values.sandboxes.namespace -}}
{{- if eq $box .Release.Namespace -}}
{{- fail (printf "sandboxes.namespace is %s, where muxd itself is installed: sandboxes need a namespace of their own" $box) -}}
{{- end -}}
{{- $other := .Values.config.kubernetes.namespace | default $box -}}
{{- if ne $other $box -}}
{{- fail (printf "config.kubernetes.namespace is %s and sandboxes.namespace is %s: set sandboxes.namespace alone" $other $box) -}}
{{- end -}}
{{- $ours := dict "kubernetes" (dict "namespace" $box "admission_user" (include "muxd.user" .)) -}}
{{- if .Values.metrics.tokenSecret -}}
{{- $_ := set $ours "metrics" (dict "token_file" "/etc/muxd/metrics/token") -}}
{{- end -}}
{{- toYaml (mergeOverwrite (deepCopy .Values.config) $ours) -}}
{{- end -}}

{{- /* Labels of PodSecurity, from a map of modes and levels. */ -}}
{{- define "muxd.podSecurity" -}}
{{- range $mode, $level := . }}
pod-security.kubernetes.io/{{ $mode }}: {{ $level | quote }}
{{- end -}}
{{- end -}}
