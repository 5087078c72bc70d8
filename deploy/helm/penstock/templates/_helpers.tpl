{{- define "penstock.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "penstock.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "penstock.labels" -}}
{{ include "penstock.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "penstock.secret" -}}
{{- default (include "penstock.fullname" .) .Values.token.existingSecret -}}
{{- end -}}

{{- define "penstock.claim" -}}
{{- default (include "penstock.fullname" .) .Values.storage.existingClaim -}}
{{- end -}}

{{/* The options of the cluster: those of the values, and those that follow from other values. */}}
{{- define "penstock.configuration" -}}
{{- $options := dict "io.tmp.dirs" "/tmp" -}}
{{- if .Values.highAvailability.enabled -}}
{{- if not .Values.storage.enabled -}}
{{- fail "highAvailability.enabled needs storage.enabled: the jobmanagers share a folder" -}}
{{- end -}}
{{- $_ := set $options "high-availability.type" "filesystem" -}}
{{- $_ := set $options "high-availability.storageDir" (printf "%s/high-availability" .Values.storage.mountPath) -}}
{{- $_ := set $options "high-availability.cluster-id" (include "penstock.fullname" .) -}}
{{- else if gt (int .Values.jobmanager.replicas) 1 -}}
{{- fail "jobmanager.replicas above 1 needs highAvailability.enabled, by which one of them leads" -}}
{{- end -}}
{{- toYaml (merge (deepCopy .Values.configuration) $options) -}}
{{- end -}}

{{/* What the pods of both roles share. */}}
{{- define "penstock.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: 60
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "penstock.container" -}}
image: "{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  - name: POD_IP
    valueFrom: {fieldRef: {fieldPath: status.podIP}}
  - name: PENSTOCK_CONF_DIR
    value: /etc/penstock
  - name: PENSTOCK_SESSION_TOKEN
    valueFrom: {secretKeyRef: {name: {{ include "penstock.secret" . }}, key: token}}
volumeMounts:
  - {name: configuration, mountPath: /etc/penstock, readOnly: true}
  - {name: temporary, mountPath: /tmp}
  {{- if .Values.storage.enabled }}
  - {name: storage, mountPath: {{ .Values.storage.mountPath }}}
  {{- end }}
{{- end -}}

{{- define "penstock.volumes" -}}
- name: configuration
  configMap: {name: {{ include "penstock.fullname" . }}}
{{- if .Values.storage.enabled }}
- name: storage
  persistentVolumeClaim: {claimName: {{ include "penstock.claim" . }}}
{{- end }}
{{- end -}}

{{- define "penstock.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
