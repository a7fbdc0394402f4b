// The OpenAPI documents by the rules of OpenAPI, as others read them.
import assert from "node:assert/strict";
import fs from "node:fs";
import { test } from "node:test";
import { Validator } from "@seriousme/openapi-schema-validator";

// problems are what is wrong with a document, references that lead nowhere among it.
async function problems(document) {
  const validator = new Validator();
  const { valid, errors } = await validator.validate(document);
  if (!valid) return errors;
  try {
    validator.resolveRefs();
  } catch (e) {
    return e.message;
  }
}

for (const name of ["httpapi/openapi.json", "dialect/lmstfy/openapi.json", "dialect/lmstfy/openapi_admin.json"]) {
  test(name, async () => {
    const text = fs.readFileSync(new URL("../../internal/" + name, import.meta.url), "utf8");
    assert.deepEqual(await problems(JSON.parse(text)), undefined);
    assert.ok(await problems({ ...JSON.parse(text), info: {} }), "a document without a title is taken for valid");
    const lost = JSON.parse(text.replace(/"#\/components\/\w+\/\w+"/, '"#/components/schemas/Nowhere"'));
    assert.ok(await problems(lost), "a reference that leads nowhere is not found");
  });
}
