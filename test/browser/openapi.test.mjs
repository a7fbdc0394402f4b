// The OpenAPI documents by the rules of OpenAPI, as others read them.
import assert from "node:assert/strict";
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

for (const url of process.env.DOCUMENTS.split(" ")) {
  test(url, async () => {
    const text = await (await fetch(url)).text();
    assert.deepEqual(await problems(JSON.parse(text)), undefined);
    assert.ok(await problems({ ...JSON.parse(text), info: {} }), "a document without a title is taken for valid");
    const lost = JSON.parse(text.replace(/"#\/components\/\w+\/\w+"/, '"#/components/schemas/Nowhere"'));
    assert.ok(await problems(lost), "a reference that leads nowhere is not found");
  });
}
