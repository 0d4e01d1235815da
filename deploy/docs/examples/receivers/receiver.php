<?php
$key = base64_decode(substr(getenv('WEBHOOK_SECRET'), strlen('whsec_')));
$id = $_SERVER['HTTP_WEBHOOK_ID'] ?? '';
$timestamp = $_SERVER['HTTP_WEBHOOK_TIMESTAMP'] ?? '';
$signatures = explode(' ', $_SERVER['HTTP_WEBHOOK_SIGNATURE'] ?? ''); // several during a rotation
$body = file_get_contents('php://input'); // the bytes as they came

$recent = ctype_digit($timestamp) && abs(time() - (int) $timestamp) <= 300; // a recorded request is not sent again later
$want = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$timestamp.$body", $key, true));
$genuine = array_filter($signatures, fn ($one) => hash_equals($want, $one)); // in constant time
if (!$recent || !$genuine) {
    http_response_code(401);
    exit;
}
if (!is_file("inbox/$id")) { // a message may arrive twice
    @mkdir('inbox');
    file_put_contents("inbox/$id.new", $body);
    rename("inbox/$id.new", "inbox/$id");
}
http_response_code(204); // respond now, process the file later
