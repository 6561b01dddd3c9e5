{{- define "warren.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "warren.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else if contains (include "warren.name" .) .Release.Name }}
{{- .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "warren.name" .) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "warren.selector" -}}
app.kubernetes.io/name: {{ include "warren.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "warren.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "warren.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: warren
{{- end }}

{{- define "warren.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "warren.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- /* Cluster-wide names carry the namespace, so that two releases of one name do not meet. */}}
{{- define "warren.clusterRole" -}}
{{- printf "%s-%s" .Release.Namespace (include "warren.fullname" .) | trunc 200 }}
{{- end }}

{{/* The rules of the manager: those that it is generated with, and what values add. */}}
{{- define "warren.rules" -}}
{{ .Files.Get "files/manager-rules.yaml" | trim }}
{{- if .Values.benchmark.brokerCgroups }}
- apiGroups:
  - ""
  resources:
  - pods/exec
  verbs:
  - create
{{- end }}
{{- end }}
