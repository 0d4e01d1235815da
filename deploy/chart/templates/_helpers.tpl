{{- define "hookladder.name" -}}
{{- .Values.nameOverride | default .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "hookladder.selector" -}}
app.kubernetes.io/name: hookladder
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "hookladder.labels" -}}
{{ include "hookladder.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "hookladder.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* A stop takes the delay, the grace and at most 25 s more. */ -}}
{{- define "hookladder.killAfter" -}}
{{- add .Values.shutdown.delaySeconds .Values.shutdown.graceSeconds 25 -}}
{{- end -}}

{{- /* Fails if the attempts do not fit the memory: 56 KiB each, which are 40 over TLS and a body of
16 KiB, 128 MiB of larger bodies, 60 MiB for the rest, and a tenth that Go does not count. */ -}}
{{- define "hookladder.checkMemory" -}}
{{- $limit := .Values.resources.limits.memory -}}
{{- $mib := trimSuffix "Mi" $limit | int64 -}}
{{- if hasSuffix "Gi" $limit -}}
{{- $mib = mul 1024 (trimSuffix "Gi" $limit | int64) -}}
{{- end -}}
{{- $needed := div (add (mul 56 .Values.maxInFlight) (mul 188 1024) 920) 921 -}}
{{- if gt $needed $mib -}}
{{- fail (printf "maxInFlight: %v attempts need %dMi of memory, and resources.limits.memory is %s: raise it, or lower maxInFlight" .Values.maxInFlight $needed $limit) -}}
{{- end -}}
{{- end -}}

{{- /* The ports of a rule. */ -}}
{{- define "hookladder.ports" -}}
ports:
  {{- range . }}
  - {port: {{ . }}, protocol: TCP}
  {{- end }}
{{- end -}}

{{- define "hookladder.env" -}}
- {name: LISTEN, value: {{ .Values.api | ternary ":8080" "off" | quote }}}
- {name: METRICS_LISTEN, value: ":9464"}
- {name: MAX_IN_FLIGHT, value: {{ .Values.maxInFlight | int64 | quote }}}
- {name: SHUTDOWN_DELAY, value: "{{ .Values.shutdown.delaySeconds }}s"}
- {name: SHUTDOWN_GRACE, value: "{{ .Values.shutdown.graceSeconds }}s"}
{{- range $name, $secret := .Values.secrets }}
{{- if $secret | kindIs "map" }}
{{- if $.Values.mountSecrets }}
- {name: {{ $name }}_FILE, value: /etc/hookladder/secrets/{{ $name }}}
{{- else }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef: {name: {{ get $secret "name" | default $.Values.existingSecret }}, key: {{ get $secret "key" | default $name }}}
{{- end }}
{{- end }}
{{- end }}
{{- range $name, $from := .Values.files }}
- {name: {{ $name }}, value: /etc/hookladder/files/{{ $name }}}
{{- end }}
{{- range $name, $value := .Values.settings }}
- {name: {{ $name }}, value: {{ include "hookladder.text" $value | quote }}}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* A large number is 1e+06 for Helm, and 1000000 for Hookladder. */ -}}
{{- define "hookladder.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}{{ int64 . }}{{- else -}}{{ . }}{{- end -}}
{{- end -}}
